package simbackend

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestTokensJoinToTheText(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		var words []string
		for p := range pieces(text) {
			if p == "" {
				t.Fatal("an empty token")
			}
			words = append(words, p)
		}
		if strings.Join(words, "") != text || countTokens(text) != len(words) {
			t.Fatalf("%q gives %q", text, words)
		}
		v := newVocabulary()
		if back := v.decode(v.encode(text)); back != text {
			t.Fatalf("%q decodes to %q", text, back)
		}
	})
}

func TestFillersAreOneTokenEach(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 2, 19, 20, 21, 1000} {
		if got := countTokens(fill(n)); got != n {
			t.Errorf("fill(%d) has %d tokens", n, got)
		}
	}
}

// conforms checks a value against the part of JSON Schema that filler knows.
func conforms(root, schema map[string]any, v any) error {
	if ref, ok := schema["$ref"].(string); ok {
		if ref == "#" {
			return conforms(root, root, v)
		}
		name := ref[strings.LastIndex(ref, "/")+1:]
		return conforms(root, root["$defs"].(map[string]any)[name].(map[string]any), v)
	}
	if alternatives, ok := schema["anyOf"].([]any); ok {
		for _, s := range alternatives {
			if conforms(root, s.(map[string]any), v) == nil {
				return nil
			}
		}
		return fmt.Errorf("%v fits no alternative", v)
	}
	if c, ok := schema["const"]; ok && fmt.Sprint(c) != fmt.Sprint(v) {
		return fmt.Errorf("%v is not %v", v, c)
	}
	if enum, ok := schema["enum"].([]any); ok && !slices.ContainsFunc(enum, func(e any) bool { return fmt.Sprint(e) == fmt.Sprint(v) }) {
		return fmt.Errorf("%v is not one of %v", v, enum)
	}
	var kinds []any
	switch k := schema["type"].(type) {
	case string:
		kinds = []any{k}
	case []any:
		kinds = k
	}
	kind := map[bool]string{true: "null"}[v == nil]
	switch value := v.(type) {
	case map[string]any:
		kind = "object"
		required, _ := schema["required"].([]any)
		for _, name := range required {
			if _, ok := value[name.(string)]; !ok {
				return fmt.Errorf("%v is missing", name)
			}
		}
		properties, _ := schema["properties"].(map[string]any)
		for name, member := range value {
			if s, ok := properties[name].(map[string]any); ok {
				if err := conforms(root, s, member); err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
			}
		}
	case []any:
		kind = "array"
		if least, ok := schema["minItems"].(float64); ok && len(value) < int(least) {
			return fmt.Errorf("%d items", len(value))
		}
		if s, ok := schema["items"].(map[string]any); ok {
			for _, item := range value {
				if err := conforms(root, s, item); err != nil {
					return err
				}
			}
		}
	case string:
		kind = "string"
		if n, ok := schema["minLength"].(float64); ok && len([]rune(value)) < int(n) {
			return fmt.Errorf("%q is too short", value)
		}
		if n, ok := schema["maxLength"].(float64); ok && len([]rune(value)) > int(n) {
			return fmt.Errorf("%q is too long", value)
		}
	case bool:
		kind = "boolean"
	case float64:
		kind = "number"
		if value == float64(int(value)) && slices.Contains(kinds, any("integer")) {
			kind = "integer"
		}
		if n, ok := schema["minimum"].(float64); ok && value < n {
			return fmt.Errorf("%v is below %v", value, n)
		}
		if n, ok := schema["maximum"].(float64); ok && value > n {
			return fmt.Errorf("%v is above %v", value, n)
		}
	}
	if len(kinds) > 0 && !slices.Contains(kinds, any(kind)) {
		return fmt.Errorf("%v is %s, not %v", v, kind, kinds)
	}
	return nil
}

func TestGeneratedJSONConforms(t *testing.T) {
	t.Parallel()
	model := DefaultModels(DialectVLLM)[0]
	for name, text := range map[string]string{
		"anything":         `{}`,
		"object":           `{"type":"object"}`,
		"properties alone": `{"properties":{"a":{"type":"null"}}}`,
		"every type": `{"type":"object","required":["s","n","i","b","z","a","o","extra"],"properties":{
			"s":{"type":"string"},"n":{"type":"number"},"i":{"type":"integer"},"b":{"type":"boolean"},"z":{"type":"null"},
			"a":{"type":"array","items":{"type":"integer"},"minItems":3},"o":{"type":"object","properties":{"x":{"enum":["p","q"]}}}}}`,
		"nullable":       `{"type":"object","properties":{"a":{"type":["string","null"]},"b":{"type":["null","integer"]}}}`,
		"const and enum": `{"type":"object","required":["c","e"],"properties":{"c":{"const":42},"e":{"enum":[1,"two",null]}}}`,
		"bounds":         `{"type":"object","properties":{"a":{"type":"integer","minimum":1000},"b":{"type":"number","maximum":-3},"c":{"type":"string","minLength":90},"d":{"type":"string","maxLength":2},"e":{"type":"integer","minimum":0.5,"maximum":1.5}}}`,
		"references":     `{"$ref":"#/$defs/p","$defs":{"p":{"type":"object","required":["q"],"properties":{"q":{"$ref":"#/$defs/q"}}},"q":{"type":"array","items":{"type":"boolean"}}}}`,
		"recursive":      `{"$defs":{"node":{"type":"object","properties":{"v":{"type":"integer"},"next":{"$ref":"#/$defs/node"},"kids":{"type":"array","items":{"$ref":"#"}}}}},"$ref":"#/$defs/node"}`,
		"self":           `{"type":"object","properties":{"child":{"$ref":"#"}}}`,
		"alternatives":   `{"type":"object","properties":{"a":{"anyOf":[{"type":"integer"},{"type":"string"}]}},"required":["a"]}`,
		"array on top":   `{"type":"array","items":{"type":"object","required":["k"],"properties":{"k":{"type":"string"}}},"minItems":2}`,
		"scalar on top":  `{"type":"integer"}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var schema map[string]any
			if err := json.Unmarshal([]byte(text), &schema); err != nil {
				t.Fatal(err)
			}
			for seed := range uint64(20) {
				w := newWriter(seed, 0, &job{model: &model})
				out := w.fill(json.RawMessage(text))
				var v any
				if err := json.Unmarshal(out, &v); err != nil {
					t.Fatalf("%v in %s", err, out)
				}
				if err := conforms(schema, schema, v); err != nil {
					t.Fatalf("seed %d: %v in %s", seed, err, out)
				}
			}
		})
	}
}

func TestObjectsKeepTheOrderOfTheSchema(t *testing.T) {
	t.Parallel()
	model := DefaultModels(DialectVLLM)[0]
	w := newWriter(0, 0, &job{model: &model})
	got := w.fill(json.RawMessage(`{"type":"object","properties":{"z":{"const":1},"a":{"const":2},"m":{"const":3}}}`))
	if string(got) != `{"z":1,"a":2,"m":3}` {
		t.Errorf("fill = %s", got)
	}
}

func TestFragmentsOfArgumentsJoin(t *testing.T) {
	t.Parallel()
	args := asciiJSON([]byte(`{"text":"a \"quote\", caf` + "\u00e9 \U0001f600" + `"}`))
	var s script
	s.addCall(call{name: "f", args: args})
	joined, splits := "", 0
	for _, st := range s.steps {
		joined += st.text
		if strings.HasSuffix(st.text, `\`) {
			splits++
		}
	}
	if joined != args || splits != 5 {
		t.Errorf("%d splits in escapes, joined %s, want %s", splits, joined, args)
	}
	var v struct{ Text string }
	if err := json.Unmarshal([]byte(args), &v); err != nil || v.Text != "a \"quote\", caf\u00e9 \U0001f600" {
		t.Errorf("%v: %q", err, v.Text)
	}
}

func TestThePrefixCacheForgetsTheEndOfAPromptFirst(t *testing.T) {
	t.Parallel()
	c := newPrefixCache(5 * prefixBlock)
	long := strings.Repeat("word ", 4*prefixBlock)
	c.visit("m", "", long)
	c.visit("m", "", strings.Repeat("other ", 3*prefixBlock))
	if got := c.visit("m", "", long); got != 2*prefixBlock {
		t.Errorf("%d tokens known, want the first two of four blocks", got)
	}
	if got := c.visit("n", "", long); got != 0 {
		t.Errorf("%d tokens known to another model", got)
	}
}
