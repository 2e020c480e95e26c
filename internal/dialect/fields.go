package dialect

import (
	"encoding/json"
	"maps"
	"slices"

	"mindrouter/internal/llm"
)

// Fields reads the members of a JSON object that came from a client. A field that is null counts as absent; of a key
// that occurs twice the last one counts. The first wrong field is remembered and later ones are still read, so that a
// decoder can take everything and look at [Fields.Err] once.
type Fields struct {
	path string
	m    map[string]json.RawMessage
	err  *llm.Error
}

// ReadFields reads the object raw. The path of the object, such as "stream_options", precedes the names in errors;
// it is empty for the body.
func ReadFields(raw json.RawMessage, path string) *Fields {
	f := &Fields{path: path, m: map[string]json.RawMessage{}}
	if Kind(raw) != '{' {
		if raw != nil {
			f.fail("", "must be an object")
		}
		return f
	}
	for key, value := range Members(raw) {
		if Null(value) {
			delete(f.m, string(key))
			continue
		}
		f.m[string(key)] = value
	}
	return f
}

// Err returns the first error, or nil.
func (f *Fields) Err() error {
	if f.err == nil {
		return nil
	}
	return f.err
}

// Fail remembers an error of the field name, unless there is one already.
func (f *Fields) Fail(name, format string, args ...any) {
	f.fail(name, format, args...)
}

// Adopt remembers err, unless there is one already. Its Param is taken as the whole path.
func (f *Fields) Adopt(err error) {
	if e := llm.AsError(err); e != nil && f.err == nil {
		f.err = e
	}
}

func (f *Fields) fail(name, format string, args ...any) {
	if f.err == nil {
		f.err = llm.Invalid(f.Path(name), format, args...)
	}
}

// Path returns the full path of the field name.
func (f *Fields) Path(name string) string {
	switch {
	case f.path == "":
		return name
	case name == "":
		return f.path
	default:
		return f.path + "." + name
	}
}

// Has reports whether the field is present and not taken yet.
func (f *Fields) Has(name string) bool { return f.m[name] != nil }

// Take removes a field and returns it; nil if it is absent.
func (f *Fields) Take(name string) json.RawMessage {
	v := f.m[name]
	delete(f.m, name)
	return v
}

// Rest returns the names that nobody took, sorted.
func (f *Fields) Rest() []string { return slices.Sorted(maps.Keys(f.m)) }

// String takes a string; empty if absent.
func (f *Fields) String(name string) string {
	v := f.Take(name)
	s, ok := Unquote(v)
	if v != nil && !ok {
		f.fail(name, "must be a string")
	}
	return s
}

// Bool takes a boolean.
func (f *Fields) Bool(name string) *bool {
	v := f.Take(name)
	if v == nil {
		return nil
	}
	b, ok := Bool(v)
	if !ok {
		f.fail(name, "must be true or false")
		return nil
	}
	return &b
}

// Int takes a whole number between low and high.
func (f *Fields) Int(name string, low, high int) *int {
	n := f.Int64(name)
	if n == nil {
		return nil
	}
	if *n < int64(low) || *n > int64(high) {
		f.fail(name, "must be between %d and %d", low, high)
		return nil
	}
	i := int(*n)
	return &i
}

// Int64 takes a whole number.
func (f *Fields) Int64(name string) *int64 {
	v := f.Take(name)
	if v == nil {
		return nil
	}
	n, ok := Int(v)
	if !ok {
		f.fail(name, "must be a whole number")
		return nil
	}
	return &n
}

// Float takes a number.
func (f *Fields) Float(name string) *float64 {
	v := f.Take(name)
	if v == nil {
		return nil
	}
	x, ok := Float(v)
	if !ok {
		f.fail(name, "must be a number")
		return nil
	}
	return &x
}

// Object takes an object; absent gives an empty one. Errors of it are to be adopted.
func (f *Fields) Object(name string) *Fields {
	return ReadFields(f.Take(name), f.Path(name))
}
