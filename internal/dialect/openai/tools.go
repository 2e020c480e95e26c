package openai

import (
	"encoding/json"
	"slices"

	"mindrouter/internal/dialect"
	"mindrouter/internal/llm"
)

func (d *decoder) tools() {
	tools, functions := d.f.Take("tools"), d.f.Take("functions")
	choice, functionCall := d.f.Take("tool_choice"), d.f.Take("function_call")
	d.req.ParallelTools = d.f.Bool("parallel_tool_calls")
	if tools != nil && functions != nil {
		d.f.Fail("functions", "cannot be used together with tools")
		return
	}
	if functions != nil {
		one := false
		d.req.LegacyFunctions, d.req.ParallelTools = true, &one
		d.toolList("functions", functions, readLegacyTool)
		d.choice("function_call", functionCall)
		return
	}
	d.toolList("tools", tools, readTool)
	d.choice("tool_choice", choice)
}

func (d *decoder) toolList(name string, raw json.RawMessage, read func(json.RawMessage) (llm.Tool, *llm.Error)) {
	if raw == nil {
		return
	}
	if dialect.Kind(raw) != '[' {
		d.f.Fail(name, "must be a list")
		return
	}
	for i, item := range dialect.Elements(raw) {
		if i == maxTools {
			d.f.Fail(name, "has more than %d entries", maxTools)
			return
		}
		tool, err := read(item)
		if err != nil {
			d.f.Adopt(dialect.Under(dialect.At(name, i), err))
			return
		}
		d.req.Tools = append(d.req.Tools, tool)
	}
}

// readTool reads an element of tools: a function, nested as the protocol says or flat as in the Responses API.
func readTool(raw json.RawMessage) (llm.Tool, *llm.Error) {
	if dialect.Kind(raw) != '{' {
		return llm.Tool{}, llm.Invalid("", "must be an object")
	}
	kind := "function"
	var function json.RawMessage
	for key, value := range dialect.Members(raw) {
		switch string(key) {
		case "type":
			kind, _ = dialect.Unquote(value)
		case "function":
			function = value
		}
	}
	if kind != "function" {
		return llm.Tool{}, &llm.Error{Code: llm.CodeUnsupported, Param: "type", Message: "only tools of type function are supported"}
	}
	if function == nil {
		return readLegacyTool(raw)
	}
	tool, err := readLegacyTool(function)
	if err != nil {
		return tool, dialect.Under("function", err)
	}
	return tool, nil
}

// readLegacyTool reads a function declaration without wrapper.
func readLegacyTool(raw json.RawMessage) (llm.Tool, *llm.Error) {
	var t llm.Tool
	f := dialect.ReadFields(raw, "")
	t.Name = f.String("name")
	t.Description = f.String("description")
	t.Strict = f.Bool("strict")
	if t.Schema = f.Take("parameters"); t.Schema != nil && dialect.Kind(t.Schema) != '{' {
		f.Fail("parameters", "must be a JSON schema object")
	}
	if t.Name == "" {
		f.Fail("name", "is required")
	}
	return t, llm.AsError(f.Err())
}

// choice reads tool_choice or function_call. Without tools only a demand for a call is an error; auto and none then
// say nothing.
func (d *decoder) choice(field string, raw json.RawMessage) {
	if raw == nil {
		return
	}
	tc, err := readChoice(raw)
	if err != nil {
		d.f.Adopt(dialect.Under(field, err))
		return
	}
	if len(d.req.Tools) == 0 {
		if tc.Mode == llm.ToolRequired || tc.Mode == llm.ToolNamed {
			d.f.Fail(field, "needs tools")
		}
		return
	}
	names := tc.Allowed
	if tc.Mode == llm.ToolNamed {
		names = []string{tc.Name}
	}
	for _, name := range names {
		if !slices.ContainsFunc(d.req.Tools, func(t llm.Tool) bool { return t.Name == name }) {
			d.f.Fail(field, "names a tool that is not declared")
		}
	}
	d.req.ToolChoice = tc
}

func readChoice(raw json.RawMessage) (llm.ToolChoice, *llm.Error) {
	if word, ok := dialect.Unquote(raw); ok {
		return choiceWord(word)
	}
	if dialect.Kind(raw) != '{' {
		return llm.ToolChoice{}, llm.Invalid("", "must be a string or an object")
	}
	f := dialect.ReadFields(raw, "")
	kind := f.String("type")
	switch kind {
	case "function", "tool", "":
		inner := f.Object("function")
		name := inner.String("name")
		if flat := f.String("name"); name == "" {
			name = flat
		}
		if name == "" {
			return llm.ToolChoice{}, llm.Invalid("function.name", "is required")
		}
		return llm.ToolChoice{Mode: llm.ToolNamed, Name: name}, nil
	case "allowed_tools":
		if f.Has("allowed_tools") {
			f = f.Object("allowed_tools")
		}
		return allowedTools(f)
	case "custom":
		return llm.ToolChoice{}, &llm.Error{Code: llm.CodeUnsupported, Param: "type", Message: "custom tools are not supported here"}
	default:
		return choiceWord(kind)
	}
}

func choiceWord(word string) (llm.ToolChoice, *llm.Error) {
	switch word {
	case "auto":
		return llm.ToolChoice{Mode: llm.ToolAuto}, nil
	case "none":
		return llm.ToolChoice{Mode: llm.ToolNone}, nil
	case "required", "any":
		return llm.ToolChoice{Mode: llm.ToolRequired}, nil
	default:
		return llm.ToolChoice{}, llm.Invalid("", "must be auto, none, required or name a function")
	}
}

func allowedTools(f *dialect.Fields) (llm.ToolChoice, *llm.Error) {
	tc := llm.ToolChoice{Mode: llm.ToolAuto}
	if mode := f.String("mode"); mode != "" {
		var err *llm.Error
		if tc, err = choiceWord(mode); err != nil {
			return tc, dialect.Under("mode", err)
		}
	}
	for i, item := range dialect.Elements(f.Take("tools")) {
		t := dialect.ReadFields(item, "")
		inner := t.Object("function")
		name := inner.String("name")
		if flat := t.String("name"); name == "" {
			name = flat
		}
		if name == "" {
			return tc, llm.Invalid(dialect.At("tools", i), "must name a function")
		}
		tc.Allowed = append(tc.Allowed, name)
	}
	if len(tc.Allowed) == 0 {
		return tc, llm.Invalid("tools", "must not be empty")
	}
	return tc, llm.AsError(f.Err())
}
