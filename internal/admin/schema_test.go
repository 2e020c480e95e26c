package admin_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"mindrouter/internal/admin"
)

// schema is as much of JSON Schema as the cluster file's uses; a keyword that it does not know is an error.
type schema struct {
	Schema               string             `json:"$schema"`
	Title                string             `json:"title"`
	Description          string             `json:"description"`
	Type                 string             `json:"type"`
	Properties           map[string]*schema `json:"properties"`
	AdditionalProperties *bool              `json:"additionalProperties"`
	Required             []string           `json:"required"`
	Items                *schema            `json:"items"`
	OneOf                []*schema          `json:"oneOf"`
	Enum                 []string           `json:"enum"`
	Pattern              string             `json:"pattern"`
	Format               string             `json:"format"`
	Minimum              *float64           `json:"minimum"`
	ExclusiveMinimum     *float64           `json:"exclusiveMinimum"`
	Maximum              *float64           `json:"maximum"`
	MinLength            *int               `json:"minLength"`
	MaxLength            *int               `json:"maxLength"`
	MinItems             *int               `json:"minItems"`
}

func readSchema(t *testing.T) *schema {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(admin.ClusterSchema()))
	dec.DisallowUnknownFields()
	var s schema
	if err := dec.Decode(&s); err != nil {
		t.Fatal(err)
	}
	return &s
}

func TestTheSchemaInTheDocumentsIsTheOneThatIsServed(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../../docs/cluster.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(doc, admin.ClusterSchema()) {
		t.Error("docs/cluster.schema.json and internal/admin/cluster.schema.json differ: copy one over the other")
	}
}

// TestTheSchemaKnowsEveryKey compares the schema with the types that a file is decoded to, both ways.
func TestTheSchemaKnowsEveryKey(t *testing.T) {
	t.Parallel()
	compare(t, "", reflect.TypeFor[admin.Cluster](), readSchema(t))
}

func compare(t *testing.T, path string, typ reflect.Type, s *schema) {
	t.Helper()
	if typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	if s.Description == "" && path != "" && s.Type != "string" && len(s.OneOf) == 0 {
		t.Errorf("%s: is not described", path)
	}
	want := map[reflect.Kind]string{
		reflect.String: "string", reflect.Int: "integer", reflect.Int64: "integer", reflect.Float64: "number", reflect.Bool: "boolean",
		reflect.Slice: "array", reflect.Struct: "object", reflect.Map: "object",
	}[typ.Kind()]
	if typ == reflect.TypeFor[time.Duration]() {
		want = "string"
	}
	if typ == reflect.TypeFor[admin.ClusterTarget]() { // a name or a mapping
		if len(s.OneOf) != 2 || s.OneOf[0].Type != "string" {
			t.Fatalf("%s: want a name or a mapping", path)
		}
		s = s.OneOf[1]
	}
	if s.Type != want {
		t.Errorf("%s: type %q, want %q", path, s.Type, want)
	}
	switch {
	case typ.Kind() == reflect.Slice:
		if s.Items == nil {
			t.Fatalf("%s: items are missing", path)
		}
		if typ.Elem().Kind() != reflect.Map { // what is not part of this version is open
			compare(t, path+"[]", typ.Elem(), s.Items)
		}
	case typ.Kind() == reflect.Struct:
		fields := map[string]reflect.Type{}
		yamlFields(typ, fields)
		for name, f := range fields {
			if p := s.Properties[name]; p != nil {
				compare(t, path+"."+name, f, p)
			} else {
				t.Errorf("%s: the schema lacks %s", path, name)
			}
		}
		for name := range s.Properties {
			if fields[name] == nil {
				t.Errorf("%s: the schema has %s, which no file may hold", path, name)
			}
		}
		if s.AdditionalProperties == nil || *s.AdditionalProperties {
			t.Errorf("%s: the schema lets unknown keys pass", path)
		}
	}
}

func yamlFields(typ reflect.Type, into map[string]reflect.Type) {
	for i := range typ.NumField() {
		f := typ.Field(i)
		name, rest, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if rest == "inline" {
			yamlFields(f.Type, into)
		} else {
			into[name] = f.Type
		}
	}
}

// validate lists where v does not fit s.
func validate(path string, v any, s *schema) []string {
	if len(s.OneOf) > 0 {
		fits := 0
		for _, o := range s.OneOf {
			if len(validate(path, v, o)) == 0 {
				fits++
			}
		}
		if fits != 1 {
			return []string{fmt.Sprintf("%s: fits %d of the forms, want one", path, fits)}
		}
		return nil
	}
	var out []string
	bad := func(format string, args ...any) { out = append(out, path+": "+fmt.Sprintf(format, args...)) }
	switch s.Type {
	case "object":
		m, ok := v.(map[string]any)
		if !ok {
			bad("is no object")
			return out
		}
		for _, name := range s.Required {
			if _, ok := m[name]; !ok {
				bad("lacks %s", name)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(m)) {
			if p, ok := s.Properties[name]; ok {
				out = append(out, validate(path+"."+name, m[name], p)...)
			} else if s.AdditionalProperties != nil && !*s.AdditionalProperties {
				bad("%s is unknown", name)
			}
		}
	case "array":
		list, ok := v.([]any)
		if !ok {
			bad("is no array")
			return out
		}
		for i, e := range list {
			out = append(out, validate(fmt.Sprintf("%s[%d]", path, i), e, s.Items)...)
		}
	case "string":
		text, ok := v.(string)
		if !ok {
			bad("is no string")
		}
		if s.Enum != nil && !slices.Contains(s.Enum, text) {
			bad("%q is none of %v", text, s.Enum)
		}
		if s.Pattern != "" && !regexp.MustCompile(s.Pattern).MatchString(text) {
			bad("%q does not match %s", text, s.Pattern)
		}
		if (s.MinLength != nil && len(text) < *s.MinLength) || (s.MaxLength != nil && len(text) > *s.MaxLength) {
			bad("has %d characters", len(text))
		}
	case "boolean":
		if _, ok := v.(bool); !ok {
			bad("is no boolean")
		}
	case "integer", "number":
		n, ok := v.(float64)
		if !ok || (s.Type == "integer" && n != math.Trunc(n)) {
			bad("%v is no %s", v, s.Type)
		}
		if (s.Minimum != nil && n < *s.Minimum) || (s.ExclusiveMinimum != nil && n <= *s.ExclusiveMinimum) || (s.Maximum != nil && n > *s.Maximum) {
			bad("%v is out of range", n)
		}
	}
	return out
}

// asJSON reads YAML as JSON would be read.
func asJSON(t *testing.T, text string) any {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestTheExampleFitsTheSchema(t *testing.T) {
	t.Parallel()
	for _, p := range validate("", asJSON(t, example(t)), readSchema(t)) {
		t.Error(p)
	}
}

func TestAnExportFitsTheSchema(t *testing.T) {
	t.Parallel()
	b := exampleBench(t)
	b.apply(example(t))
	text, err := b.Export(t.Context(), operator)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range validate("", asJSON(t, string(text)), readSchema(t)) {
		t.Error(p)
	}
}

func TestTheSchemaRefusesWhatTheParserRefuses(t *testing.T) {
	t.Parallel()
	s := readSchema(t)
	for _, file := range []string{
		"surprise: 1",
		"groups: [{name: g}]",
		"groups: [{name: g, weight: 0}]",
		"groups: [{name: g, weight: 1, budget_period_days: 0}]",
		"groups: [{name: g, weight: 1, share_mode: mine}]",
		"groups: [{name: a b, weight: 1}]",
		"backends: [{name: b, engine: tgi, url: 'http://h'}]",
		"backends: [{name: b, engine: vllm}]",
		"backends: [{name: b, engine: vllm, url: 'http://h', api_key: sk-hunter2}]",
		"backends: [{name: b, engine: vllm, url: 'http://h', max_concurrent: 0}]",
		"backends: [{name: b, engine: vllm, url: 'http://h', models: [{name: m, surprise: 1}]}]",
		"models: [{name: m, thinking: {profile: deep}}]",
		"aliases: [{name: a}]",
		"aliases: [{name: a, targets: [{weight: 1}]}]",
		"users: [{name: u, group: g, role: king}]",
		"settings: {retry: {idle: 60}}",
		"settings: {retry: {attempts: 11}}",
		"settings: {scheduler: {slack: 0}}",
		"settings: {routing: {points: {luck: 1}}}",
	} {
		if got := validate("", asJSON(t, file), s); len(got) == 0 {
			t.Errorf("the schema accepts %s", file)
		}
		if got := problems(t, file); len(got) == 0 {
			t.Errorf("the parser accepts %s", file)
		}
	}
}
