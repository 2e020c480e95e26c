package anthropic

import (
	"encoding/json"
	"strings"

	"mindrouter/internal/dialect"
	"mindrouter/internal/llm"
)

// block is a content block as the client sent it.
type block struct{ members map[string]json.RawMessage }

// readBlock reads a block. Anything but an object has no members and hence no type.
func readBlock(raw json.RawMessage) block {
	b := block{members: map[string]json.RawMessage{}}
	for key, value := range dialect.Members(raw) {
		b.members[string(key)] = value
	}
	return b
}

func (b block) kind() string { return b.word("type") }

// word returns a member that is a string, or nothing.
func (b block) word(name string) string {
	s, _ := dialect.Unquote(b.members[name])
	return s
}

func (b block) text() (string, *llm.Error) {
	s, ok := dialect.Unquote(b.members["text"])
	if !ok {
		return "", llm.Invalid("text", "must be a string")
	}
	return s, nil
}

// said decodes what may stand in a turn and in the result of a tool: text, pictures, documents, search results. Empty
// texts are left out.
func (d *decoder) said(b block) ([]llm.Block, *llm.Error) {
	switch kind := b.kind(); kind {
	case "text":
		s, err := b.text()
		return texts(s), err
	case "image":
		m, err := image(readBlock(b.members["source"]))
		if err != nil {
			return nil, dialect.Under("source", err)
		}
		return []llm.Block{{Kind: llm.BlockImage, Media: m}}, nil
	case "document":
		return d.document(b)
	case "search_result":
		return d.searchResult(b)
	case "":
		return nil, llm.Invalid("type", "is required")
	default:
		return nil, llm.Invalid("type", "unknown type of content")
	}
}

func texts(s string) []llm.Block {
	if s == "" {
		return nil
	}
	return []llm.Block{llm.TextBlock(s)}
}

func image(source block) (*llm.Media, *llm.Error) {
	switch source.kind() {
	case "base64":
		_, data, err := dialect.DataOrBase64(source.word("data"))
		if err != nil {
			return nil, dialect.Under("data", err)
		}
		m, err := dialect.ImageData(data)
		return m, dialect.Under("data", err)
	case "url":
		m, err := dialect.Image(source.word("url"))
		return m, dialect.Under("url", err)
	case "file":
		return nil, unsupported("type", "stored files are not supported; send base64")
	default:
		return nil, llm.Invalid("type", "must be base64 or url")
	}
}

// document decodes a document. Text and content are at hand; what the bytes of other types mean is for the backend to
// say.
func (d *decoder) document(b block) ([]llm.Block, *llm.Error) {
	d.citations(b)
	blocks := texts(b.word("context"))
	m := &llm.Media{Name: b.word("title")}
	source := readBlock(b.members["source"])
	switch source.kind() {
	case "text":
		s, ok := dialect.Unquote(source.members["data"])
		if !ok {
			return nil, llm.Invalid("source.data", "must be a string")
		}
		m.Type, m.Data = "text/plain", []byte(s)
	case "base64":
		var err *llm.Error
		if m.Type, m.Data, err = dialect.DataOrBase64(source.word("data")); err != nil {
			return nil, dialect.Under("source.data", err)
		}
		if m.Type = source.word("media_type"); m.Type == "" {
			m.Type = "application/pdf"
		}
	case "content":
		inner, err := d.contentSource(source.members["content"])
		if err != nil {
			return nil, dialect.Under("source.content", err)
		}
		return append(append(blocks, texts(m.Name)...), inner...), nil
	case "url":
		return nil, unsupported("source.type", "documents by URL are not supported; send base64 or text")
	case "file":
		return nil, unsupported("source.type", "stored files are not supported; send base64 or text")
	default:
		return nil, llm.Invalid("source.type", "must be base64, text or content")
	}
	return append(blocks, llm.Block{Kind: llm.BlockDocument, Media: m}), nil
}

// contentSource decodes a document that is made of texts and pictures.
func (d *decoder) contentSource(raw json.RawMessage) ([]llm.Block, *llm.Error) {
	if s, ok := dialect.Unquote(raw); ok {
		return texts(s), nil
	}
	if dialect.Kind(raw) != '[' {
		return nil, llm.Invalid("", "must be a string or a list of blocks")
	}
	var blocks []llm.Block
	for i, item := range dialect.Elements(raw) {
		b := readBlock(item)
		if kind := b.kind(); kind != "text" && kind != "image" {
			return nil, dialect.Under(dialect.At("", i), llm.Invalid("type", "must be text or image"))
		}
		said, err := d.said(b)
		if err != nil {
			return nil, dialect.Under(dialect.At("", i), err)
		}
		blocks = append(blocks, said...)
	}
	return blocks, nil
}

// searchResult turns a search result into the text that a model without citations can read.
func (d *decoder) searchResult(b block) ([]llm.Block, *llm.Error) {
	d.citations(b)
	var s strings.Builder
	s.WriteString(b.word("title"))
	if source := b.word("source"); source != "" {
		s.WriteString(" (" + source + ")")
	}
	for i, item := range dialect.Elements(b.members["content"]) {
		text, err := readBlock(item).text()
		if err != nil {
			return nil, dialect.Under(dialect.At("content", i), err)
		}
		s.WriteString("\n" + text)
	}
	return texts(s.String()), nil
}

// citations notes that a client which wants passages cited will not see them.
func (d *decoder) citations(b block) {
	if on, _ := dialect.Bool(readBlock(b.members["citations"]).members["enabled"]); on {
		d.note("citations", "dropped", "")
	}
}

// resultContent decodes the content of a tool result: a string, a list of blocks, or nothing. Documents of text become
// text, because templates take nothing else there.
func (d *decoder) resultContent(raw json.RawMessage) ([]llm.Block, *llm.Error) {
	if dialect.Null(raw) {
		return nil, nil
	}
	if s, ok := dialect.Unquote(raw); ok {
		return texts(s), nil
	}
	if dialect.Kind(raw) != '[' {
		return nil, llm.Invalid("", "must be a string or a list of blocks")
	}
	var blocks []llm.Block
	for i, item := range dialect.Elements(raw) {
		b := readBlock(item)
		var said []llm.Block
		var err *llm.Error
		switch b.kind() {
		case "tool_reference": // every declared tool is loaded from the start: there is nothing to do but say so
			said = texts("The tool " + b.word("tool_name") + " is available.")
		case "browser_state":
			d.note("browser_state", "dropped", "")
		default:
			said, err = d.said(b)
		}
		if err != nil {
			return nil, dialect.Under(dialect.At("", i), err)
		}
		for _, s := range said {
			if s.Kind == llm.BlockDocument {
				if text, err := dialect.DocumentText(s.Media); err == nil {
					s = llm.TextBlock(text)
				}
			}
			blocks = append(blocks, s)
		}
	}
	return blocks, nil
}
