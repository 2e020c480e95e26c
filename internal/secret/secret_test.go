package secret_test

import (
	"errors"
	"strings"
	"testing"

	"mindrouter/internal/secret"
)

func ring(t *testing.T, keys ...string) *secret.Ring {
	t.Helper()
	r, err := secret.Parse(strings.Join(keys, ","))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func key(t *testing.T) string {
	t.Helper()
	k, err := secret.Generate()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestRotationKeepsOldValuesReadable(t *testing.T) {
	old, fresh := key(t), key(t)
	sealed, err := ring(t, old).Seal([]byte("token"), "backend/1")
	if err != nil {
		t.Fatal(err)
	}
	rotated := ring(t, fresh, old)
	plain, err := rotated.Open(sealed, "backend/1")
	if err != nil || string(plain) != "token" {
		t.Fatalf("after rotation %q, %v", plain, err)
	}
	if !rotated.Stale(sealed) {
		t.Error("a value under the old key is not stale")
	}
	if _, err := ring(t, fresh).Open(sealed, "backend/1"); !errors.Is(err, secret.ErrLostKey) {
		t.Errorf("without the old key: %v, want ErrLostKey", err)
	}
	sum, id := ring(t, old).MAC(secret.PurposeKeyTag).Sum([]byte("x"))
	if again, ok := rotated.MAC(secret.PurposeKeyTag).SumWith(id, []byte("x")); !ok || again != sum {
		t.Error("a digest under the old key cannot be repeated")
	}
}

func TestSealedValueIsBoundToItsPlace(t *testing.T) {
	r := ring(t, key(t))
	sealed, err := r.Seal([]byte("token"), "backend/1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Open(sealed, "backend/2"); err == nil {
		t.Error("a value was opened in another place")
	}
	if _, err := r.Open(sealed[:len(sealed)-2]+"xx", "backend/1"); err == nil {
		t.Error("a changed value was opened")
	}
	if strings.Contains(sealed, "token") {
		t.Error("the sealed value shows its content")
	}
}

func TestPurposesShareNoKey(t *testing.T) {
	r := ring(t, key(t))
	a, _ := r.MAC(secret.PurposeKeyTag).Sum([]byte("x"))
	b, _ := r.MAC(secret.PurposeAudit).Sum([]byte("x"))
	if a == b {
		t.Error("two purposes have the same digest")
	}
}

func TestParseRefusesShortKeys(t *testing.T) {
	for _, text := range []string{"", "abc", "not base64 at all!", "c2hvcnQ="} {
		if _, err := secret.Parse(text); err == nil {
			t.Errorf("Parse(%q) was accepted", text)
		}
	}
}
