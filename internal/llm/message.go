package llm

import "encoding/json"

// Role is who speaks in a [Message].
type Role string

// Roles of messages. Tool results are messages of RoleTool.
const (
	RoleSystem    Role = "system"
	RoleDeveloper Role = "developer"
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool"
)

// Message is one turn of a conversation.
type Message struct {
	Role   Role
	Name   string // optional name of the speaker
	Blocks []Block
}

// Text returns the text blocks of m, joined without separator.
func (m Message) Text() string {
	var s string
	for _, b := range m.Blocks {
		if b.Kind == BlockText {
			s += b.Text
		}
	}
	return s
}

// BlockKind is the kind of a [Block].
type BlockKind string

// Block kinds.
const (
	BlockText       BlockKind = "text"
	BlockThinking   BlockKind = "thinking"
	BlockRefusal    BlockKind = "refusal"
	BlockImage      BlockKind = "image"
	BlockAudio      BlockKind = "audio"
	BlockDocument   BlockKind = "document"
	BlockToolCall   BlockKind = "tool_call"
	BlockToolResult BlockKind = "tool_result"
)

// Block is one piece of content. Kind says which of the other fields count.
type Block struct {
	Kind       BlockKind
	Text       string      // text, thinking, refusal
	Signature  string      // thinking: opaque proof of origin
	Media      *Media      // image, audio, document
	ToolCall   *ToolCall   // tool_call
	ToolResult *ToolResult // tool_result
}

// TextBlock returns a text block.
func TextBlock(s string) Block { return Block{Kind: BlockText, Text: s} }

// Media is binary content, either inline or by reference.
type Media struct {
	Type   string // media type, such as image/png; empty if unknown
	Data   []byte // inline content, decoded
	URL    string // http or https, if not inline
	Detail string // OpenAI's detail hint for images
	Name   string // file name of a document
}

// ToolCall is a call of a tool by the model.
type ToolCall struct {
	ID   string // opaque; passes through unchanged
	Name string
	// Arguments is a JSON value with the bytes of the model. It may be invalid JSON if the model wrote it so.
	Arguments json.RawMessage
}

// ToolResult answers a [ToolCall].
type ToolResult struct {
	CallID  string
	Name    string // of the tool, if known
	Content []Block
	IsError bool
}
