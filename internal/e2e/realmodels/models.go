package realmodels

// Names of the models that Models returns.
const (
	Chat          = "scripted-chat"
	Think         = "scripted-think"
	Tools         = "scripted-tools"
	ParallelTools = "scripted-parallel-tools"
	Endless       = "scripted-endless"
	Stuck         = "scripted-stuck"
	JSON          = "typing-json"
	Embed         = "tiny-embed"
)

// Model is a generated model and what it is known to do.
type Model struct {
	Name string
	// Capabilities are those that Ollama is expected to report.
	Capabilities []string
	// Says is the whole answer to any prompt without tools, or the part that is repeated for ever by
	// the endless models, of which the stuck one repeats a single token. It is empty for models that answer at random or not at all.
	Says string
	// SaysTokens is the number of tokens that Says is made of, without the one that ends it.
	SaysTokens int
	// Thinks is the thought before the answer, unless the request turns thinking off.
	Thinks string
	// Calls are the tools called where the request offers tools and its last message is not a tool's
	// result; after a result the answer is Says. They name one tool, WeatherTool.
	Calls []ToolCall

	// Template is the chat template in Ollama's language.
	Template string
	// GGUF is the model file.
	GGUF []byte
}

// ToolCall is a call that a model is known to make.
type ToolCall struct {
	Name      string
	Arguments map[string]any
}

// WeatherTool is the name of the tool that the calling models call. It takes one string, "city".
const WeatherTool = "get_weather"

// Control tokens. Each ends a prompt and so decides what is said.
const (
	answerToken = "<|answer|>"
	callToken   = "<|call|>"
	thinkToken  = "<|think|>"
)

// plainTemplate shows the conversation and asks for the answer.
const plainTemplate = `{{ range .Messages }}<|turn|>{{ .Role }}: {{ .Content }}
{{ end }}<|answer|>`

// thinkTemplate is recognised by Ollama as that of a thinking model by the tags around the thought.
const thinkTemplate = `{{ range .Messages }}<|turn|>{{ .Role }}: {{ if .Thinking }}<think>{{ .Thinking }}</think>{{ end }}{{ .Content }}
{{ end }}{{ if and .IsThinkSet (not .Think) }}<|answer|>{{ else }}<|think|>{{ end }}`

// toolsTemplate asks for a call only where tools are offered and the last message is no result of one.
// Ollama takes the tag before a call from it.
const toolsTemplate = `{{ if .Tools }}<|turn|>tools: {{ .Tools }}
{{ end }}{{ $last := "" }}{{ range .Messages }}{{ $last = .Role }}<|turn|>{{ .Role }}: {{ .Content }}{{ if .ToolCalls }}<tool_call>{{ range .ToolCalls }}{"name": "{{ .Function.Name }}", "arguments": {{ .Function.Arguments }}}{{ end }}</tool_call>{{ end }}
{{ end }}{{ if and .Tools (ne $last "tool") }}<|call|>{{ else }}<|answer|>{{ end }}`

// Models generates all models. They are the same every time, byte for byte.
func Models() []Model {
	const (
		chatText    = "Grüezi! The capital of France is Paris, 東京 is that of Japan, and this sentence never changes. 🙂"
		thought     = "The user wants a short answer, so one sentence will do."
		thinkText   = "Forty-two, as far as anybody knows."
		toolsText   = "It is 21 degrees and sunny."
		endlessText = "and so on and on it goes, round after round, "
		stuckText   = "ha "
	)
	weather := func(city string) ToolCall {
		return ToolCall{Name: WeatherTool, Arguments: map[string]any{"city": city}}
	}
	return []Model{
		scripted(Model{
			Name: Chat, Capabilities: []string{"completion"}, Template: plainTemplate, Says: chatText,
		}, stops),
		scripted(Model{
			Name: Think, Capabilities: []string{"completion", "thinking"}, Template: thinkTemplate, Says: thinkText,
			Thinks: thought,
		}, stops, scriptedText{thinkToken, "<think>" + thought + "</think>" + thinkText}),
		scripted(Model{
			Name: Tools, Capabilities: []string{"completion", "tools"}, Template: toolsTemplate, Says: toolsText,
			Calls: []ToolCall{weather("Bergen")},
		}, stops, scriptedText{callToken, callText("Bergen")}),
		scripted(Model{
			Name: ParallelTools, Capabilities: []string{"completion", "tools"}, Template: toolsTemplate, Says: toolsText,
			Calls: []ToolCall{weather("Bergen"), weather("Trento")},
		}, stops, scriptedText{callToken, callText("Bergen") + "\n" + callText("Trento")}),
		scripted(Model{
			Name: Endless, Capabilities: []string{"completion"}, Template: plainTemplate, Says: endlessText,
		}, startsOver),
		scripted(Model{
			Name: Stuck, Capabilities: []string{"completion"}, Template: plainTemplate, Says: stuckText,
		}, startsOver),
		{
			Name: JSON, Capabilities: []string{"completion"}, Template: plainTemplate,
			GGUF: newTyping(answerToken).file(JSON),
		},
		{
			Name: Embed, Capabilities: []string{"embedding"}, Template: "{{ .Prompt }}",
			GGUF: newEmbedding().file(Embed),
		},
	}
}

func callText(city string) string {
	return `<tool_call>{"name": "` + WeatherTool + `", "arguments": {"city": "` + city + `"}}</tool_call>`
}

// scripted completes a model that says m.Says after the answer token and the other texts after theirs.
func scripted(m Model, ending ending, others ...scriptedText) Model {
	network, chains := newScripted(append([]scriptedText{{answerToken, m.Says}}, others...), ending)
	m.SaysTokens = len(chains[0])
	m.GGUF = network.file(m.Name)
	return m
}
