package llm

import "encoding/json"

// Dialect names a wire protocol.
type Dialect string

// The dialects that clients and backends speak.
const (
	DialectOpenAI    Dialect = "openai"
	DialectAnthropic Dialect = "anthropic"
	DialectOllama    Dialect = "ollama"
)

// Class orders a tenant's own requests and decides about burst credit. It changes neither price nor weight.
type Class string

// Classes, most urgent first.
const (
	ClassInteractive Class = "interactive" // a person waits in the web chat
	ClassStandard    Class = "standard"    // the default of the API
	ClassBatch       Class = "batch"       // may wait
)

// Boundary says where content may go.
type Boundary string

// Boundaries of a group, key or request.
const (
	BoundaryAny    Boundary = "any"    // campus and external backends
	BoundaryCampus Boundary = "campus" // backends on the university's own machines only
)

// Request is a generation request in canonical form.
type Request struct {
	Model    string // as the client named it
	Messages []Message
	// Raw, if not nil, is the prompt as it is, in place of messages: no chat template is applied to it.
	Raw *RawPrompt

	Tools         []Tool
	ToolChoice    ToolChoice
	ParallelTools *bool // nil: the backend's default; false: at most one call in an answer

	Sampling  Sampling
	MaxTokens *int // upper bound of the answer in tokens, thinking included
	Stop      []string
	N         *int // number of answers; nil means 1
	Logprobs  *bool
	// TopLogprobs is the number of alternatives per token, 0 to 20.
	TopLogprobs *int

	Format   Format
	Thinking Thinking

	Stream       bool // the client wants a stream; upstream calls are always streamed
	IncludeUsage bool // the client wants usage inside an OpenAI stream
	// LegacyFunctions says that the client used OpenAI's functions instead of tools and is answered in kind.
	LegacyFunctions bool

	CacheKey string // client's hint for cache affinity
	EndUser  string // client's own tag of its end user; for correlation only

	Origin Dialect // the dialect that it was decoded from
	// Extra holds fields of the origin dialect that have no canonical place. Only a backend of the same dialect gets them.
	Extra map[string]json.RawMessage
	// Echo holds what the codec of the origin repeats in its answer or needs to shape it. Nobody else reads it.
	Echo map[string]json.RawMessage
}

// RawPrompt is a prompt without roles.
type RawPrompt struct {
	Text   string
	Tokens []int  // instead of Text, in the model's own vocabulary
	Suffix string // the answer goes between Text and Suffix
	Echo   bool   // the answer begins with the prompt
	// More are further prompts of the same request, of which only Text and Tokens count. Each has choices of its own: those
	// of prompt i are numbered from i*N.
	More []RawPrompt
}

// Prompts are all prompts of r.
func (r *RawPrompt) Prompts() []RawPrompt { return append([]RawPrompt{*r}, r.More...) }

// Sampling parameters. Nil means that the model's own default applies.
type Sampling struct {
	Temperature      *float64
	TopP             *float64
	TopK             *int
	MinP             *float64
	TypicalP         *float64
	RepeatPenalty    *float64
	RepeatLastN      *int
	PresencePenalty  *float64
	FrequencyPenalty *float64
	Seed             *int64
	LogitBias        map[string]float64
	StopTokenIDs     []int
	MinTokens        *int
	IgnoreEOS        *bool
}

// ToolChoice says whether and which tools the model may or must call.
type ToolChoice struct {
	Mode    ToolMode
	Name    string   // the tool, if Mode is ToolNamed
	Allowed []string // if not empty, only these tools may be called
}

// ToolMode is the kind of a [ToolChoice].
type ToolMode string

// Tool modes. The zero value leaves the choice to the backend (auto where there are tools).
const (
	ToolUnset    ToolMode = ""
	ToolAuto     ToolMode = "auto"
	ToolNone     ToolMode = "none"
	ToolRequired ToolMode = "required"
	ToolNamed    ToolMode = "named"
)

// Tool is a function that the model may call. Whatever the client declared, the fields up to Strict describe a function
// that every backend can offer; the others are for the codec that gives the client its own form back.
type Tool struct {
	Name        string
	Description string
	Schema      json.RawMessage // JSON Schema of the arguments, bytes as received; nil means no arguments
	Strict      *bool

	Kind ToolKind `json:",omitempty"`
	// Namespace is the group in which the client declared the tool, and Member its name there. Name is then made of both.
	Namespace string `json:",omitempty"`
	Member    string `json:",omitempty"`
}

// ToolKind is the form in which the client declared a [Tool].
type ToolKind string

// Tool kinds. The zero value is a function with JSON arguments.
const (
	ToolFunction ToolKind = ""
	// ToolCustom takes free text. Backends see a function with the text as its one argument, input.
	ToolCustom ToolKind = "custom"
)

// Format constrains the text of the answer.
type Format struct {
	Kind   FormatKind
	Name   string          // name of the schema
	Schema json.RawMessage // for FormatSchema: JSON Schema, bytes as received
	Strict *bool
	// Text is the expression for FormatRegex and the grammar for FormatGrammar.
	Text string
	// Choices are the allowed answers for FormatChoice.
	Choices []string
}

// FormatKind is the kind of a [Format].
type FormatKind string

// Format kinds. The zero value is free text.
const (
	FormatText    FormatKind = ""
	FormatJSON    FormatKind = "json" // any JSON object
	FormatSchema  FormatKind = "schema"
	FormatRegex   FormatKind = "regex"
	FormatGrammar FormatKind = "grammar"
	FormatChoice  FormatKind = "choice"
)

// Thinking is what the client asks of the model's reasoning.
type Thinking struct {
	Mode   ThinkingMode
	Effort Effort
	Budget *int // tokens
	Hidden bool // the client does not want to see it
	// Omitted says that the client wants blocks of thinking with their signature but without their text. Unlike Hidden
	// it is a matter of encoding: the blocks arrive whole.
	Omitted bool
}

// ThinkingMode is the kind of a [Thinking].
type ThinkingMode string

// Thinking modes. The zero value leaves the model's default.
const (
	ThinkingUnset    ThinkingMode = ""
	ThinkingOff      ThinkingMode = "off"
	ThinkingOn       ThinkingMode = "on"
	ThinkingAdaptive ThinkingMode = "adaptive" // the model decides how much
	// ThinkingBetweenTools asks for thinking before and after tool calls. No backend knows it apart from ThinkingOn.
	ThinkingBetweenTools ThinkingMode = "between_tools"
)

// Effort is one ladder of reasoning effort for all dialects.
type Effort string

// Efforts, least first. The zero value means not asked.
const (
	EffortUnset   Effort = ""
	EffortMinimal Effort = "minimal"
	EffortLow     Effort = "low"
	EffortMedium  Effort = "medium"
	EffortHigh    Effort = "high"
	EffortXHigh   Effort = "xhigh"
	EffortMax     Effort = "max"
)

// Note is a loss in translation: a field of the client's request that was changed, dropped or emulated.
type Note struct {
	Field  string // as the client wrote it
	What   string // dropped, clamped, folded, emulated, not_enforced, ...
	Detail string // the effective value, if there is one
	// Semantic marks a loss that may change what the answer means. A strict request refuses it.
	Semantic bool
}

// Loss reports whether something of the request was dropped or changed. What is done in another way, or is only an
// estimate, is none.
func (n Note) Loss() bool {
	switch n.What {
	case "emulated", "estimated", "inlined":
		return n.Semantic
	default:
		return true
	}
}

// String formats n as field=what[:detail].
func (n Note) String() string {
	s := n.Field + "=" + n.What
	if n.Detail != "" {
		s += ":" + n.Detail
	}
	return s
}
