package app

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// Value is a setting as it is in effect.
type Value struct {
	Path   string `json:"path"`
	Value  string `json:"value"` // secrets redacted
	Source string `json:"source"`
}

// setting is one setting with what each source says of it.
type setting struct {
	path   string
	secret string // all: never shown; url: shown without password
	value  string
	source string
	lost   bool // it could not be read, which is told: nothing else about it is worth a word
}

// loader resolves settings and gathers problems, so that all can be told at once.
type loader struct {
	settings map[string]*setting
	order    []string
	problems []error
	warnings []string
}

const envPrefix = "MINDROUTER_"

// Variable is the environment variable of the setting at a path.
func Variable(path string) string { return envName(path) }

func envName(path string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(path, ".", "_"))
}

func newLoader(f Flags, environ []string) *loader {
	l := &loader{settings: map[string]*setting{}}
	env := map[string]string{}
	for _, kv := range environ {
		if name, value, ok := strings.Cut(kv, "="); ok && strings.HasPrefix(name, envPrefix) {
			env[name] = value
		}
	}
	if f.Config == "" {
		f.Config = env[envName("config")]
	}
	file := l.readFile(f.Config)
	known := []string{envName("config")}
	v := reflect.ValueOf(f)
	for i := range v.NumField() {
		field := v.Type().Field(i)
		path := field.Tag.Get("path")
		if path == "" {
			continue
		}
		s := &setting{path: path, secret: field.Tag.Get("secret"), value: field.Tag.Get("fallback"), source: "default"}
		if fv, ok := file[path]; ok {
			s.value, s.source = fv.text, fmt.Sprintf("%s:%d", f.Config, fv.line)
			delete(file, path)
		}
		if ev, ok := env[envName(path)]; ok {
			s.value, s.source = ev, envName(path)
		}
		if p, _ := v.Field(i).Interface().(*string); p != nil {
			s.value, s.source = *p, "flag"
		}
		l.settings[path] = s
		l.order = append(l.order, path)
		known = append(known, envName(path))
		l.readSecret(s)
	}
	l.unknown(f.Config, file, env, known)
	return l
}

// unknown tells of keys that nobody reads: in the file that is an error, in the environment a warning, because other
// programs may use the prefix.
func (l *loader) unknown(path string, file map[string]fileValue, env map[string]string, known []string) {
	for _, key := range slices.SortedFunc(maps.Keys(file), func(a, b string) int { return file[a].line - file[b].line }) {
		l.problems = append(l.problems, fmt.Errorf("%s:%d: unknown setting %s", path, file[key].line, key))
	}
	for name := range env {
		if !slices.Contains(known, name) && !strings.HasPrefix(name, envPrefix+"TEST_") {
			l.warnings = append(l.warnings, "unknown setting "+name+" in the environment")
		}
	}
	slices.Sort(l.warnings)
}

// derived is the value in effect of a setting that nobody set, where it follows from others.
func (l *loader) derived(path, value string) {
	if s := l.settings[path]; s.value == "" {
		s.value = value
	}
}

// readSecret replaces file:PATH by the content of the file.
func (l *loader) readSecret(s *setting) {
	path, ok := strings.CutPrefix(s.value, "file:")
	if !ok || s.secret == "" {
		return
	}
	content, err := os.ReadFile(path)
	s.value = strings.TrimSpace(string(content))
	switch {
	case err != nil:
		l.problem(s.path, "%v", err)
	case s.value == "":
		l.problem(s.path, "%s is empty", path)
	}
	s.lost = s.value == ""
}

func (l *loader) problem(path, format string, args ...any) {
	source := ""
	if s := l.settings[path]; s != nil && s.lost {
		return
	} else if s != nil && s.source != "default" {
		source = " (from " + s.source + ")"
	}
	l.problems = append(l.problems, fmt.Errorf("%s%s: %s", path, source, fmt.Sprintf(format, args...)))
}

func (l *loader) text(path string) string {
	s := l.settings[path]
	if s == nil {
		panic("no such setting: " + path) // a misspelt path in this package
	}
	return s.value
}

func (l *loader) oneOf(path string, allowed ...string) string {
	v := l.text(path)
	if !slices.Contains(allowed, v) {
		words := slices.DeleteFunc(slices.Clone(allowed), func(s string) bool { return s == "" })
		l.problem(path, "%q is none of %s", v, strings.Join(words, ", "))
		return allowed[0]
	}
	return v
}

func (l *loader) duration(path string) time.Duration {
	d, err := time.ParseDuration(l.text(path))
	if err != nil || d < 0 {
		l.problem(path, "%q is not a duration such as 30s", l.text(path))
	}
	return d
}

func (l *loader) prefixes(path string) []netip.Prefix {
	var out []netip.Prefix
	for _, part := range strings.Split(l.text(path), ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		if addr, err := netip.ParseAddr(part); err == nil {
			out = append(out, netip.PrefixFrom(addr, addr.BitLen()))
			continue
		}
		p, err := netip.ParsePrefix(part)
		if err != nil {
			l.problem(path, "%q is neither an address nor a CIDR range", part)
			continue
		}
		out = append(out, p)
	}
	return out
}

// values lists what is in effect, secrets redacted.
func (l *loader) values() []Value {
	var out []Value
	for _, path := range l.order {
		s := l.settings[path]
		out = append(out, Value{Path: path, Value: s.redacted(), Source: s.source})
	}
	return out
}

func (s *setting) redacted() string {
	switch {
	case s.value == "" || s.secret == "":
		return s.value
	case s.secret == "url":
		u, err := url.Parse(s.value)
		if err != nil {
			return notShown // the password may be what spoils it
		}
		q := u.Query()
		hidden := false
		for name := range q {
			if strings.Contains(strings.ToLower(name), "password") {
				q.Set(name, "xxxxx")
				hidden = true
			}
		}
		switch {
		case hidden:
			u.RawQuery = q.Encode()
		case u.User == nil:
			return s.value
		}
		return u.Redacted()
	default:
		return notShown
	}
}

// notShown stands for a secret.
const notShown = "(set, not shown)"

type fileValue struct {
	text string
	line int
}

// readFile flattens a YAML file to dotted paths.
func (l *loader) readFile(path string) map[string]fileValue {
	out := map[string]fileValue{}
	if path == "" {
		return out
	}
	content, err := os.ReadFile(path)
	if err != nil {
		l.problems = append(l.problems, fmt.Errorf("config: %w", err))
		return out
	}
	file, err := parser.ParseBytes(content, 0)
	if err != nil {
		var at yaml.Error
		if errors.As(err, &at) && at.GetToken() != nil { // without the lines around it, which may hold a secret
			err = fmt.Errorf("%s:%d: %s", path, at.GetToken().Position.Line, at.GetMessage())
		}
		l.problems = append(l.problems, err)
		return out
	}
	for _, doc := range file.Docs {
		if doc.Body != nil {
			l.flatten(path, "", doc.Body, out)
		}
	}
	return out
}

func (l *loader) flatten(file, prefix string, node ast.Node, out map[string]fileValue) {
	line := node.GetToken().Position.Line
	switch n := node.(type) {
	case *ast.MappingNode:
		for _, kv := range n.Values {
			l.flatten(file, prefix, kv, out)
		}
	case *ast.MappingValueNode:
		key := n.Key.GetToken().Value
		if prefix != "" {
			key = prefix + "." + key
		}
		if n.Value.Type() == ast.MappingType || n.Value.Type() == ast.MappingValueType {
			l.flatten(file, key, n.Value, out)
			return
		}
		if _, twice := out[key]; twice {
			l.problems = append(l.problems, fmt.Errorf("%s:%d: %s appears twice", file, line, key))
		}
		text, ok := scalar(n.Value)
		if !ok {
			l.problems = append(l.problems, fmt.Errorf("%s:%d: %s must be a single value or a list of values", file, line, key))
			return
		}
		out[key] = fileValue{text: text, line: n.Key.GetToken().Position.Line}
	default:
		l.problems = append(l.problems, fmt.Errorf("%s:%d: want settings as key: value", file, line))
	}
}

// scalar is the text of a value; a list is joined by commas.
func scalar(node ast.Node) (string, bool) {
	switch n := node.(type) {
	case *ast.NullNode:
		return "", true
	case *ast.BoolNode:
		if n.Value {
			return "1", true
		}
		return "0", true
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.SequenceNode:
		var parts []string
		for _, item := range n.Values {
			s, ok := scalar(item)
			if !ok {
				return "", false
			}
			parts = append(parts, s)
		}
		return strings.Join(parts, ","), true
	case ast.ScalarNode:
		return n.GetToken().Value, true
	default:
		return "", false
	}
}
