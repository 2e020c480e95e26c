package openai

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"mindrouter/internal/dialect"
	"mindrouter/internal/llm"
)

const (
	// maxResponsesTools bounds the tools of a request, those in namespaces included: agents declare whole servers of them.
	maxResponsesTools = 512
	// maxToolName is how long the name of a function may be, in bytes.
	maxToolName = 64
)

// toolbox collects the tools of a request: functions as they are; tools that take free text as functions with one
// argument; the members of namespaces as functions with names made of both. Tools that only a server could run are left
// out, and it remembers which.
type toolbox struct {
	d       *responsesDecoder
	count   int      // of everything that was declared so far
	hosted  []string // types of tools that were left out
	echoed  []byte
	members map[[2]string]string // function by namespace and member
}

// toolPlace is where a client refers to a tool.
type toolPlace struct{ namespace, name string }

// list reads a list of tools at the place field.
func (t *toolbox) list(field string, raw json.RawMessage) {
	if raw != nil && dialect.Kind(raw) != '[' {
		t.d.f.Fail(field, "must be a list")
		return
	}
	for i, item := range dialect.Elements(raw) {
		t.count++
		if err := t.add(dialect.At(field, i), item); err != nil {
			t.d.f.Adopt(dialect.Under(dialect.At(field, i), err))
			return
		}
		if t.count > maxResponsesTools {
			t.d.f.Fail(field, "has more than %d tools", maxResponsesTools)
			return
		}
	}
}

func (t *toolbox) add(place string, raw json.RawMessage) *llm.Error {
	if dialect.Kind(raw) != '{' {
		return llm.Invalid("", "must be an object")
	}
	kind := typeOf(raw)
	switch kind {
	case "":
		return llm.Invalid("type", "is required")
	case "function", "custom":
		tool, err := readResponsesTool(kind, raw)
		if err != nil {
			return err
		}
		t.put(tool)
	case "namespace":
		if err := t.namespace(place, raw); err != nil {
			return err
		}
	default:
		t.leaveOut(place, kind)
		return nil
	}
	if t.echoed != nil {
		t.echoed = append(t.echoed, ',')
	}
	t.echoed = append(t.echoed, raw...)
	return nil
}

// kept returns the list of tools without those that were left out; nil if there is none.
func (t *toolbox) kept() json.RawMessage {
	if t.echoed == nil {
		return nil
	}
	return append(append([]byte{'['}, t.echoed...), ']')
}

func (t *toolbox) leaveOut(place, kind string) {
	t.hosted = append(t.hosted, kind)
	t.d.notes = append(t.d.notes, llm.Note{Field: place, What: "dropped", Detail: dialect.NoteName(kind)})
}

func (t *toolbox) namespace(place string, raw json.RawMessage) *llm.Error {
	f := dialect.ReadFields(raw, "")
	name, tools := f.String("name"), f.Take("tools")
	if name == "" {
		f.Fail("name", "is required")
	}
	if dialect.Kind(tools) != '[' {
		f.Fail("tools", "must be a list")
	}
	if err := llm.AsError(f.Err()); err != nil {
		return err
	}
	for i, item := range dialect.Elements(tools) {
		if t.count++; t.count > maxResponsesTools {
			break // the whole list will be refused
		}
		inner := dialect.At("tools", i)
		kind := typeOf(item)
		if kind == "" {
			kind = "function"
		}
		if kind != "function" && kind != "custom" {
			t.leaveOut(place+"."+inner, kind)
			continue
		}
		tool, err := readResponsesTool(kind, item)
		if err != nil {
			return dialect.Under(inner, err)
		}
		tool.Namespace, tool.Member = name, tool.Name
		t.put(tool)
	}
	return nil
}

// put adds a tool unless the request has it already: later items of the input may declare again what a tool search
// found.
func (t *toolbox) put(tool llm.Tool) {
	member := tool.Name
	key := [2]string{tool.Namespace, member}
	if _, ok := t.members[key]; ok {
		return
	}
	if t.members == nil {
		t.members = map[[2]string]string{}
	}
	if tool.Namespace != "" {
		tool.Name = t.unique(flatName(tool.Namespace, member))
	} else {
		t.giveWay(tool.Name)
	}
	t.members[key] = tool.Name
	t.d.req.Tools = append(t.d.req.Tools, tool)
}

// giveWay renames the member of a namespace that has the name of a tool which has no other.
func (t *toolbox) giveWay(name string) {
	for i := range t.d.req.Tools {
		other := &t.d.req.Tools[i]
		if other.Name == name {
			other.Name = t.unique(name) // another one, because other still has it
			t.members[[2]string{other.Namespace, other.Member}] = other.Name
			return
		}
	}
}

// flatName makes one function name of a namespace and a member, of letters that every server takes.
func flatName(namespace, member string) string {
	return strings.ReplaceAll(namespace, ".", "__") + "__" + strings.ReplaceAll(member, ".", "__")
}

// unique returns name, or name with a number if it is too long or another tool has it.
func (t *toolbox) unique(name string) string {
	taken := func(name string) bool {
		return slices.ContainsFunc(t.d.req.Tools, func(other llm.Tool) bool { return other.Name == name })
	}
	if len(name) <= maxToolName && !taken(name) {
		return name
	}
	for n := 2; ; n++ {
		suffix := "_" + strconv.Itoa(n)
		short := name[:min(len(name), maxToolName-len(suffix))]
		if candidate := strings.ToValidUTF8(short, "") + suffix; !taken(candidate) {
			return candidate
		}
	}
}

// function returns the name of the function that stands for a tool; a tool that is not declared any more has the name
// that it would have.
func (t *toolbox) function(p toolPlace) string {
	if name, ok := t.members[[2]string{p.namespace, p.name}]; ok {
		return name
	}
	if p.namespace == "" {
		return p.name
	}
	return flatName(p.namespace, p.name)
}

func typeOf(raw json.RawMessage) string {
	kind := ""
	for key, value := range dialect.Members(raw) {
		if string(key) == "type" {
			kind, _ = dialect.Unquote(value)
		}
	}
	return kind
}

func readResponsesTool(kind string, raw json.RawMessage) (llm.Tool, *llm.Error) {
	if kind == "custom" {
		return readCustomTool(raw)
	}
	return readTool(raw)
}

// customSchema is the schema of a function that stands for a tool which takes free text.
var customSchema = json.RawMessage(`{"type":"object","properties":{"input":{"type":"string","description":"The whole input of the tool, as plain text."}},"required":["input"],"additionalProperties":false}`)

// readCustomTool reads a tool that takes free text. Servers know functions only, so it becomes one with the text as its
// argument; a grammar, which they could not enforce inside a string, is told to the model.
func readCustomTool(raw json.RawMessage) (llm.Tool, *llm.Error) {
	f := dialect.ReadFields(raw, "")
	t := llm.Tool{Kind: llm.ToolCustom, Name: f.String("name"), Description: f.String("description"), Schema: customSchema}
	format := f.Object("format")
	switch kind := format.String("type"); kind {
	case "", "text":
	case "grammar":
		syntax, definition := format.String("syntax"), format.String("definition")
		if definition == "" {
			format.Fail("definition", "is required")
		}
		t.Description = strings.TrimLeft(t.Description+"\n\n", "\n") +
			"The value of input is plain text that obeys this grammar (" + syntax + "):\n" + definition
	default:
		format.Fail("type", "must be text or grammar")
	}
	f.Adopt(format.Err())
	if t.Name == "" {
		f.Fail("name", "is required")
	}
	return t, llm.AsError(f.Err())
}

// choice reads tool_choice. Without tools only a demand for a call is an error; auto and none then say nothing.
func (t *toolbox) choice(raw json.RawMessage) {
	if raw == nil {
		return
	}
	tc, err := t.readChoice(raw)
	if err != nil {
		t.d.f.Adopt(dialect.Under("tool_choice", err))
		return
	}
	if len(t.d.req.Tools) == 0 {
		switch {
		case tc.Mode != llm.ToolRequired && tc.Mode != llm.ToolNamed:
		case len(t.hosted) > 0:
			t.d.unsupported("tool_choice", "demands a tool that runs at the server, which is not supported here")
		default:
			t.d.f.Fail("tool_choice", "needs tools")
		}
		return
	}
	t.d.req.ToolChoice = tc
	t.d.echo("tool_choice", raw)
}

func (t *toolbox) readChoice(raw json.RawMessage) (llm.ToolChoice, *llm.Error) {
	if word, ok := dialect.Unquote(raw); ok {
		return choiceWord(word)
	}
	if dialect.Kind(raw) != '{' {
		return llm.ToolChoice{}, llm.Invalid("", "must be a string or an object")
	}
	f := dialect.ReadFields(raw, "")
	switch kind := f.String("type"); kind {
	case "function", "custom":
		name, err := t.named(f)
		return llm.ToolChoice{Mode: llm.ToolNamed, Name: name}, err
	case "allowed_tools":
		return t.allowed(f)
	case "auto", "none", "required", "any":
		return choiceWord(kind)
	case "":
		return llm.ToolChoice{}, llm.Invalid("type", "is required")
	default:
		return llm.ToolChoice{}, &llm.Error{
			Code: llm.CodeUnsupported, Param: "type", Message: "a tool of type " + dialect.NoteName(kind) + " runs at the server, which is not supported here",
		}
	}
}

// named returns the function of a declared tool. A name that stands in one namespace only needs no namespace.
func (t *toolbox) named(f *dialect.Fields) (string, *llm.Error) {
	p := toolPlace{namespace: f.String("namespace"), name: f.String("name")}
	if inner := f.Object("function"); p.name == "" {
		p.name = inner.String("name")
	}
	if err := llm.AsError(f.Err()); err != nil {
		return "", err
	}
	if p.name == "" {
		return "", llm.Invalid("name", "is required")
	}
	if name, ok := t.members[[2]string{p.namespace, p.name}]; ok {
		return name, nil
	}
	var found []string
	for _, tool := range t.d.req.Tools {
		if tool.Name == p.name || (p.namespace == "" && (tool.Member == p.name || tool.Namespace+"."+tool.Member == p.name)) {
			found = append(found, tool.Name)
		}
	}
	if len(found) != 1 {
		return "", llm.Invalid("name", "names a tool that is not declared")
	}
	return found[0], nil
}

// allowed reads a list of tools to which the model is confined. Members that were left out of the request are left out
// of it; if nothing remains, no tool may be called.
func (t *toolbox) allowed(f *dialect.Fields) (llm.ToolChoice, *llm.Error) {
	tc := llm.ToolChoice{Mode: llm.ToolAuto}
	if mode := f.String("mode"); mode != "" {
		var err *llm.Error
		if tc, err = choiceWord(mode); err != nil {
			return tc, dialect.Under("mode", err)
		}
	}
	n := 0
	for i, item := range dialect.Elements(f.Take("tools")) {
		if n++; n > maxResponsesTools {
			return tc, llm.Invalid("tools", "has more than %d entries", maxResponsesTools)
		}
		place := dialect.At("tools", i)
		inner := dialect.ReadFields(item, "")
		switch kind := inner.String("type"); kind {
		case "function", "custom":
			name, err := t.named(inner)
			if err != nil {
				return tc, dialect.Under(place, err)
			}
			tc.Allowed = append(tc.Allowed, name)
		case "namespace":
			name := inner.String("name")
			for _, tool := range t.d.req.Tools {
				if tool.Namespace == name && name != "" {
					tc.Allowed = append(tc.Allowed, tool.Name)
				}
			}
		case "":
			return tc, llm.Invalid(place+".type", "is required")
		}
	}
	switch {
	case n == 0:
		return tc, llm.Invalid("tools", "must not be empty")
	case len(tc.Allowed) > 0:
	case tc.Mode == llm.ToolRequired:
		return tc, &llm.Error{
			Code: llm.CodeUnsupported, Param: "tools", Message: "allows only tools that run at the server, which is not supported here",
		}
	default:
		tc.Mode = llm.ToolNone
	}
	return tc, llm.AsError(f.Err())
}
