package admin

import (
	"reflect"
	"strings"
	"testing"
)

// TestLaterNamesKeysThatExist keeps the list of keys without effect true to the file: a key that was renamed or removed
// must leave it.
func TestLaterNamesKeysThatExist(t *testing.T) {
	t.Parallel()
	for path, why := range later {
		at := reflect.TypeFor[Cluster]()
		for _, part := range strings.Split(path, ".") {
			key, list := strings.CutSuffix(part, "[]")
			if at.Kind() == reflect.Pointer {
				at = at.Elem()
			}
			f, ok := fieldOf(at, key)
			if !ok || (list && f.Kind() != reflect.Slice) {
				t.Fatalf("%s: %v has no key %s", path, at, part)
			}
			if at = f; list {
				at = f.Elem()
			}
		}
		if why == "" {
			t.Errorf("%s: says nothing", path)
		}
	}
}
