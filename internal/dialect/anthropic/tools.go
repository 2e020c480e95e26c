package anthropic

import (
	"encoding/json"
	"slices"
	"strings"

	"mindrouter/internal/dialect"
	"mindrouter/internal/llm"
)

func (d *decoder) tools() {
	raw, choice := d.f.Take("tools"), d.f.Take("tool_choice")
	if raw != nil && dialect.Kind(raw) != '[' {
		d.f.Fail("tools", "must be a list")
		return
	}
	var dropped []string // names of tools that a server would have run
	for i, item := range dialect.Elements(raw) {
		if i == maxTools {
			d.f.Fail("tools", "has more than %d entries", maxTools)
			return
		}
		tool, kind, err := readTool(item)
		switch {
		case err != nil:
			d.f.Adopt(dialect.Under(dialect.At("tools", i), err))
			return
		case kind != "":
			d.note(dialect.At("tools", i), "dropped", dialect.NoteName(kind))
			dropped = append(dropped, tool.Name)
		default:
			d.req.Tools = append(d.req.Tools, tool)
		}
	}
	d.choice(choice, dropped)
}

// readTool reads an element of tools. A tool that only a server could run has its type returned as dropped.
func readTool(raw json.RawMessage) (tool llm.Tool, dropped string, err *llm.Error) {
	if dialect.Kind(raw) != '{' {
		return tool, "", llm.Invalid("", "must be an object")
	}
	f := dialect.ReadFields(raw, "")
	kind := f.String("type")
	tool.Name = f.String("name")
	tool.Description = f.String("description")
	tool.Strict = f.Bool("strict")
	if tool.Schema = f.Take("input_schema"); tool.Schema != nil && dialect.Kind(tool.Schema) != '{' {
		f.Fail("input_schema", "must be a JSON schema object")
	}
	if kind != "" && kind != "custom" && tool.Schema == nil {
		family := strings.TrimRight(kind, "_0123456789")
		built, ok := clientTools[family]
		switch {
		case ok && tool.Name != "":
			tool.Description, tool.Schema = built.Description, built.Schema
		case strings.HasPrefix(family, "computer") || strings.HasPrefix(family, "browser"):
			f.Adopt(unsupported("type", "the tool "+family+" is not supported; declare it with an input_schema"))
		default:
			return tool, kind, llm.AsError(f.Err())
		}
	}
	if tool.Name == "" {
		f.Fail("name", "is required")
	}
	return tool, "", llm.AsError(f.Err())
}

// choice reads tool_choice. Without tools only a demand for a call is an error; auto and none then say nothing.
func (d *decoder) choice(raw json.RawMessage, dropped []string) {
	if raw == nil {
		return
	}
	o := dialect.ReadFields(raw, "tool_choice")
	defer func() { d.f.Adopt(o.Err()) }()
	kind, name, single := o.String("type"), o.String("name"), o.Bool("disable_parallel_tool_use")
	tc := llm.ToolChoice{}
	switch kind {
	case "auto":
		tc.Mode = llm.ToolAuto
	case "none":
		tc.Mode, single = llm.ToolNone, nil
	case "any":
		tc.Mode = llm.ToolRequired
	case "tool":
		tc.Mode, tc.Name = llm.ToolNamed, name
	default:
		o.Fail("type", "must be auto, any, tool or none")
	}
	switch {
	case tc.Mode != llm.ToolNamed:
	case name == "":
		o.Fail("name", "is required")
	case slices.ContainsFunc(d.req.Tools, func(t llm.Tool) bool { return t.Name == name }):
	case slices.Contains(dropped, name):
		o.Adopt(unsupported("tool_choice.name", "names a tool that runs at the server, which is not supported here"))
	default:
		o.Fail("name", "names a tool that is not declared")
	}
	if len(d.req.Tools) == 0 {
		if tc.Mode == llm.ToolRequired {
			o.Fail("type", "needs tools")
		}
		return
	}
	d.req.ToolChoice = tc
	if single != nil && *single {
		one := false
		d.req.ParallelTools = &one
	}
}

// clientTools are the tools that the client runs but does not describe: the protocol's own models know them by their
// type. Other models need a description and a schema.
var clientTools = map[string]llm.Tool{
	"bash": {
		Description: "Runs a command in a persistent bash session and returns its output. Set restart to begin a new session.",
		Schema: json.RawMessage(`{"type":"object","properties":{` +
			`"command":{"type":"string","description":"The command to run. Required unless restart is set."},` +
			`"restart":{"type":"boolean","description":"Begin a new session instead of running a command."}}}`),
	},
	"text_editor": {
		Description: "Views, creates and edits text files. str_replace replaces the one occurrence of old_str by new_str; " +
			"insert puts insert_text after line insert_line.",
		Schema: json.RawMessage(`{"type":"object","properties":{` +
			`"command":{"type":"string","enum":["view","create","str_replace","insert"],"description":"What to do."},` +
			`"path":{"type":"string","description":"Path of the file or directory."},` +
			`"view_range":{"type":"array","items":{"type":"integer"},"description":"First and last line to view, from 1; -1 means the end."},` +
			`"file_text":{"type":"string","description":"Content of the file to create."},` +
			`"old_str":{"type":"string","description":"Text to replace; it must occur exactly once."},` +
			`"new_str":{"type":"string","description":"Text that replaces old_str."},` +
			`"insert_line":{"type":"integer","description":"Line after which to insert; 0 means the beginning."},` +
			`"insert_text":{"type":"string","description":"Text to insert."}},"required":["command","path"]}`),
	},
	"memory": {
		Description: "Keeps notes in files below /memories that outlive the conversation. Look there before you begin, and " +
			"write down what will matter later.",
		Schema: json.RawMessage(`{"type":"object","properties":{` +
			`"command":{"type":"string","enum":["view","create","str_replace","insert","delete","rename"],"description":"What to do."},` +
			`"path":{"type":"string","description":"Path of the file or directory, below /memories."},` +
			`"view_range":{"type":"array","items":{"type":"integer"},"description":"First and last line to view, from 1."},` +
			`"file_text":{"type":"string","description":"Content of the file to create."},` +
			`"old_str":{"type":"string","description":"Text to replace; it must occur exactly once."},` +
			`"new_str":{"type":"string","description":"Text that replaces old_str."},` +
			`"insert_line":{"type":"integer","description":"Line after which to insert; 0 means the beginning."},` +
			`"insert_text":{"type":"string","description":"Text to insert."},` +
			`"old_path":{"type":"string","description":"Path of the file to rename."},` +
			`"new_path":{"type":"string","description":"Its new path."}},"required":["command"]}`),
	},
}
