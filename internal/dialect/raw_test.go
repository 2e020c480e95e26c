package dialect_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"mindrouter/internal/dialect"
)

func TestValidateNamesThePlace(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                       "empty",
		" \n":                    "empty",
		"{\"a\":}":               "byte 5",
		"{\"a\":1,\n  \"b\": x}": "line 2, column 8",
		"{\"a\":1}}":             "byte 7",
		"{\"a\":\"":              "unexpected end",
		strings.Repeat("[", dialect.MaxDepth+1) + strings.Repeat("]", dialect.MaxDepth+1): "deeper",
	} {
		if err := dialect.Validate([]byte(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Validate(%.40q) = %v, want something with %q", in, err, want)
		}
	}
	deep := strings.Repeat("[", dialect.MaxDepth) + `"[[["` + strings.Repeat("]", dialect.MaxDepth)
	if err := dialect.Validate([]byte(deep)); err != nil {
		t.Errorf("brackets in a string count as depth: %v", err)
	}
}

func TestIntKeepsDigitsAndTakesWholeFloats(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]int64{
		"16": 16, "16.0": 16, "1e3": 1000, "-1": -1, "7\n": 7, "9007199254740993": 9007199254740993,
		"-9223372036854775808": -9223372036854775808,
	} {
		if got, ok := dialect.Int(json.RawMessage(in)); !ok || got != want {
			t.Errorf("Int(%s) = %d, %t, want %d", in, got, ok, want)
		}
	}
	for _, in := range []string{"16.5", `"16"`, "1e300", "9223372036854775808", "true", "null", ""} {
		if got, ok := dialect.Int(json.RawMessage(in)); ok {
			t.Errorf("Int(%s) = %d, want none", in, got)
		}
	}
}

func FuzzMembers(f *testing.F) {
	for _, s := range []string{
		`{"a":1,"b":[1,{"c":"\"]}"}],"\u0061":null}`, `[1,"x",[],{}, true ]`, `{"a" : "\\" , "b":-1.5e3}`, `{}`, `[]`, `"x"`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		// On anything the walk must end; on valid JSON it must agree with encoding/json.
		for range dialect.Elements(in) {
		}
		for range dialect.Members(in) {
		}
		if !json.Valid(in) {
			return
		}
		var object map[string]json.RawMessage
		if dialect.Kind(in) == '{' && json.Unmarshal(in, &object) == nil {
			got := map[string]json.RawMessage{}
			for k, v := range dialect.Members(in) {
				got[string(k)] = v
			}
			if len(got) != len(object) {
				t.Fatalf("%q: %d members, want %d", in, len(got), len(object))
			}
			for k, v := range object {
				if !bytes.Equal(got[k], v) {
					t.Errorf("%q: member %q is %q, want %q", in, k, got[k], v)
				}
			}
		}
		var array []json.RawMessage
		if dialect.Kind(in) == '[' && json.Unmarshal(in, &array) == nil {
			n := 0
			for i, v := range dialect.Elements(in) {
				if i >= len(array) || !bytes.Equal(array[i], v) {
					t.Fatalf("%q: element %d is %q", in, i, v)
				}
				n++
			}
			if n != len(array) {
				t.Errorf("%q: %d elements, want %d", in, n, len(array))
			}
		}
		var text string
		if dialect.Kind(in) == '"' && json.Unmarshal(in, &text) == nil {
			if got, ok := dialect.Unquote(in); !ok || got != text {
				t.Errorf("Unquote(%q) = %q, %t, want %q", in, got, ok, text)
			}
		}
	})
}

func FuzzAppendString(f *testing.F) {
	f.Add("a\"\\\n\t\x00\u2028\U0001f600<&>\xff")
	f.Fuzz(func(t *testing.T, s string) {
		var back string
		if err := json.Unmarshal(dialect.AppendString(nil, s), &back); err != nil {
			t.Fatalf("AppendString(%q) is not JSON: %v", s, err)
		}
		if want := strings.ToValidUTF8(s, "\ufffd"); strings.ReplaceAll(back, "\ufffd", "") != strings.ReplaceAll(want, "\ufffd", "") {
			t.Errorf("AppendString(%q) reads back as %q", s, back)
		}
	})
}

func TestJoinArrays(t *testing.T) {
	t.Parallel()
	for _, c := range [][3]string{
		{``, ``, ``},
		{`[1]`, ``, `[1]`},
		{``, `[2]`, `[2]`},
		{`[]`, `[2]`, `[2]`},
		{`[1]`, ` [ ]`, `[1]`},
		{`[1,2] `, ` [3]`, `[1,2,3]`},
	} {
		if got := dialect.JoinArrays([]byte(c[0]), []byte(c[1])); string(got) != c[2] {
			t.Errorf("JoinArrays(%q, %q) = %q, want %q", c[0], c[1], got, c[2])
		}
	}
}
