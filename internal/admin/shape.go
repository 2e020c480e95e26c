package admin

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
)

// maxNodes bounds what a file may hold once its aliases are followed.
const maxNodes = 200_000

// place is where a value stands in a file.
type place struct {
	line  int
	empty bool // 0, false, "", null or nothing: as good as left out, except where that means a default
}

// shape compares the tree of a YAML file with the type that it shall be decoded to, and gathers everything that does not
// fit, where a decoder would stop at the first. It remembers where every value stands.
type shape struct {
	places   map[string]place // by path, such as groups[0].weight
	anchors  map[string]ast.Node
	nodes    int
	problems []located
}

// located is a problem with its line.
type located struct {
	line int
	path string
	text string
}

func newShape() *shape {
	return &shape{places: map[string]place{}, anchors: map[string]ast.Node{}}
}

func (s *shape) problem(line int, path, format string, args ...any) {
	s.problems = append(s.problems, located{line, path, fmt.Sprintf(format, args...)})
}

// at is the line of a value, or of the nearest thing around it that is there; 0 if nothing is.
func (s *shape) at(path string) int {
	for {
		if p, ok := s.places[path]; ok {
			return p.line
		}
		cut := strings.LastIndexAny(path, ".[")
		if cut < 0 {
			return 0
		}
		path = path[:cut]
	}
}

// has reports whether the file has a value at path, be it an empty list.
func (s *shape) has(path string) bool {
	_, ok := s.places[path]
	return ok
}

// spoilt reports whether the value at path, or something around it or in it, does not fit: what the decoder made of it
// means nothing.
func (s *shape) spoilt(path string) bool {
	return slices.ContainsFunc(s.problems, func(p located) bool {
		return p.path == path || within(p.path, path) || within(path, p.path)
	})
}

func within(inner, outer string) bool {
	return strings.HasPrefix(inner, outer) && len(inner) > len(outer) && (inner[len(outer)] == '.' || inner[len(outer)] == '[')
}

func line(n ast.Node) int { return n.GetToken().Position.Line }

var (
	durationType = reflect.TypeFor[time.Duration]()
	targetType   = reflect.TypeFor[ClusterTarget]()
)

// check compares node with t. What does not fit is taken out of the tree, so that the rest can be decoded.
func (s *shape) check(path string, node ast.Node, t reflect.Type) ast.Node {
	before := len(s.problems)
	s.compare(path, node, t)
	for _, p := range s.problems[before:] {
		if p.path == path {
			return ast.Null(node.GetToken())
		}
	}
	return node
}

func (s *shape) compare(path string, node ast.Node, t reflect.Type) {
	if s.nodes++; s.nodes > maxNodes {
		if s.nodes == maxNodes+1 {
			s.problem(line(node), path, "the file is too large")
		}
		return
	}
	if _, seen := s.places[path]; !seen {
		s.places[path] = place{line(node), empty(node)}
	}
	switch n := node.(type) {
	case *ast.AnchorNode:
		s.compare(path, n.Value, t)
		s.anchors[n.Name.GetToken().Value] = n.Value // only now: an anchor that holds itself has no end
		return
	case *ast.AliasNode:
		name := n.Value.GetToken().Value
		if target, ok := s.anchors[name]; ok {
			s.compare(path, target, t)
		} else {
			s.problem(line(n), path, "there is no anchor %q above", name)
		}
		return
	case *ast.TagNode:
		s.problem(line(n), path, "tags such as %s have no meaning here", n.GetToken().Value)
		return
	case *ast.NullNode:
		return
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if _, named := node.(*ast.StringNode); named && t == targetType { // just the model's name
		return
	}
	switch {
	case t == durationType:
		s.duration(path, node)
	case t.Kind() == reflect.Struct:
		s.mapping(path, node, func(key string, at int) (reflect.Type, bool) {
			if f, ok := fieldOf(t, key); ok {
				return f, true
			}
			s.problem(at, join(path, key), "unknown key")
			return nil, false
		})
	case t.Kind() == reflect.Map:
		s.mapping(path, node, func(string, int) (reflect.Type, bool) { return t.Elem(), true })
	case t.Kind() == reflect.Slice:
		s.list(path, node, t.Elem())
	case t.Kind() == reflect.Interface:
		s.anything(path, node, t)
	default:
		s.scalar(path, node, t.Kind())
	}
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// fieldOf is the type of the field of t that a YAML key names.
func fieldOf(t reflect.Type, key string) (reflect.Type, bool) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, rest, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if rest == "inline" {
			if inner, ok := fieldOf(f.Type, key); ok {
				return inner, true
			}
		} else if name == key {
			return f.Type, true
		}
	}
	return nil, false
}

// mapping checks the values of a mapping, each against the type that field says.
func (s *shape) mapping(path string, node ast.Node, field func(key string, line int) (reflect.Type, bool)) {
	var pairs []*ast.MappingValueNode
	switch n := node.(type) {
	case *ast.MappingNode:
		pairs = n.Values
	case *ast.MappingValueNode:
		pairs = []*ast.MappingValueNode{n}
	default:
		s.problem(line(node), path, "want keys and values")
		return
	}
	for _, kv := range pairs {
		key := kv.Key.GetToken().Value
		if kv.Key.IsMergeKey() {
			s.problem(line(kv.Key), path, "<< has no meaning here; give each entry its keys")
		} else if t, ok := field(key, line(kv.Key)); ok {
			s.places[join(path, key)] = place{line(kv.Key), empty(kv.Value)}
			kv.Value = s.check(join(path, key), kv.Value, t)
		}
	}
}

func (s *shape) list(path string, node ast.Node, elem reflect.Type) {
	n, ok := node.(*ast.SequenceNode)
	if !ok {
		s.problem(line(node), path, "want a list")
		return
	}
	for i, v := range n.Values {
		n.Values[i] = s.check(fmt.Sprintf("%s[%d]", path, i), v, elem)
	}
}

// anything is what parameters hold: values whose meaning the schema leaves open.
func (s *shape) anything(path string, node ast.Node, t reflect.Type) {
	switch n := node.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		s.mapping(path, n, func(string, int) (reflect.Type, bool) { return t, true })
	case *ast.SequenceNode:
		s.list(path, n, t)
	case *ast.NanNode, *ast.InfinityNode:
		s.problem(line(node), path, "is not a finite number")
	}
}

func (s *shape) scalar(path string, node ast.Node, kind reflect.Kind) {
	text := node.GetToken().Value
	switch kind {
	case reflect.String:
		switch n := node.(type) {
		case *ast.LiteralNode:
			text = n.Value.Value
		case *ast.StringNode:
		default:
			s.problem(line(node), path, "want text; put it in quotes if it is meant")
			return
		}
		if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\uFFFD' }) {
			s.problem(line(node), path, "holds a control character")
		}
	case reflect.Bool:
		if _, ok := node.(*ast.BoolNode); !ok {
			s.problem(line(node), path, "want true or false, not %q", text)
		}
	case reflect.Int, reflect.Int64:
		n, ok := node.(*ast.IntegerNode)
		if !ok {
			s.problem(line(node), path, "want a whole number, not %q", text)
		} else if v, big := n.Value.(uint64); big && v > math.MaxInt64 {
			s.problem(line(node), path, "%s is too large", text)
		}
	case reflect.Float64:
		switch node.(type) {
		case *ast.IntegerNode, *ast.FloatNode:
		case *ast.NanNode, *ast.InfinityNode:
			s.problem(line(node), path, "is not a finite number")
		default:
			s.problem(line(node), path, "want a number, not %q", text)
		}
	default:
		panic("no YAML for " + kind.String()) // a new field of Cluster
	}
}

func (s *shape) duration(path string, node ast.Node) {
	text := node.GetToken().Value
	if _, err := time.ParseDuration(text); err != nil || node.Type() != ast.StringType {
		s.problem(line(node), path, "%q is no duration: want a number with a unit, such as 150s", text)
	}
}

func empty(node ast.Node) bool {
	switch n := node.(type) {
	case *ast.NullNode:
		return true
	case *ast.StringNode:
		d, err := time.ParseDuration(n.Value)
		return n.Value == "" || (err == nil && d == 0)
	case *ast.BoolNode:
		return !n.Value
	case *ast.IntegerNode, *ast.FloatNode:
		v, err := strconv.ParseFloat(n.GetToken().Value, 64)
		return err == nil && v == 0
	case *ast.SequenceNode:
		return len(n.Values) == 0
	case *ast.MappingNode:
		return len(n.Values) == 0
	default:
		return false
	}
}

// inOrder sorts problems by their place in the file.
func inOrder(problems []located) {
	slices.SortStableFunc(problems, func(a, b located) int { return cmp.Compare(a.line, b.line) })
}
