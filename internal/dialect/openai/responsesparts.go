package openai

import (
	"encoding/json"

	"mindrouter/internal/dialect"
	"mindrouter/internal/llm"
)

// reason reads reasoning, which belongs to what the assistant did next: the text that we sealed; else its open text. What
// another service has sealed is of no use here, and a summary beside it is not what that model thought.
func (c *conversation) reason(m map[string]json.RawMessage) {
	text := ""
	sealed, _ := dialect.Unquote(m["encrypted_content"])
	if sealed != "" && c.d.codec.Open != nil {
		text = c.d.codec.unseal(sealed)
	}
	if text == "" {
		text = joinTexts(reasoningParts(m["content"]), "")
	}
	if text == "" && sealed == "" {
		text = joinTexts(reasoningParts(m["summary"]), "\n\n")
	}
	if text != "" {
		c.thinking = append(c.thinking, llm.Block{Kind: llm.BlockThinking, Text: text})
	}
}

func reasoningParts(raw json.RawMessage) []llm.Block {
	var blocks []llm.Block
	for _, item := range dialect.Elements(raw) {
		for key, value := range dialect.Members(item) {
			if string(key) == "text" {
				text, _ := dialect.Unquote(value)
				blocks = append(blocks, llm.TextBlock(text))
			}
		}
	}
	return blocks
}

// itemContent decodes the content of a message or of a result: a string or a list of parts. Empty texts are left out.
func itemContent(field string, raw json.RawMessage) ([]llm.Block, *llm.Error) {
	if s, ok := dialect.Unquote(raw); ok {
		if s == "" {
			return nil, nil
		}
		return []llm.Block{llm.TextBlock(s)}, nil
	}
	if dialect.Kind(raw) != '[' {
		return nil, llm.Invalid(field, "must be a string or a list of parts")
	}
	var blocks []llm.Block
	for i, item := range dialect.Elements(raw) {
		b, err := itemPart(item)
		if err != nil {
			return nil, dialect.Under(dialect.At(field, i), err)
		}
		if (b.Kind != llm.BlockText && b.Kind != llm.BlockRefusal) || b.Text != "" {
			blocks = append(blocks, b)
		}
	}
	return blocks, nil
}

// itemPart decodes a part. Files and pictures have a flat form in this API; the rest is as in chats.
func itemPart(raw json.RawMessage) (llm.Block, *llm.Error) {
	switch typeOf(raw) {
	case "input_image":
		return inputImage(raw)
	case "input_file":
		return inputFile(raw)
	default:
		return part(raw)
	}
}

func inputImage(raw json.RawMessage) (llm.Block, *llm.Error) {
	var url, detail, id json.RawMessage
	for key, value := range dialect.Members(raw) {
		switch string(key) {
		case "image_url":
			url = value
		case "detail":
			detail = value
		case "file_id":
			id = value
		}
	}
	if !dialect.Null(id) && dialect.Null(url) {
		return llm.Block{}, &llm.Error{Code: llm.CodeUnsupported, Param: "file_id", Message: "stored files are not supported; send image_url"}
	}
	return imagePart(url, detail)
}

func inputFile(raw json.RawMessage) (llm.Block, *llm.Error) {
	var data, name string
	for key, value := range dialect.Members(raw) {
		switch string(key) {
		case "file_data":
			data, _ = dialect.Unquote(value)
		case "filename":
			name, _ = dialect.Unquote(value)
		case "file_id", "file_url":
			if !dialect.Null(value) {
				return llm.Block{}, &llm.Error{
					Code: llm.CodeUnsupported, Param: string(key), Message: "files by reference are not supported; send file_data",
				}
			}
		}
	}
	return inlineFile(data, name)
}

// sealedReasoning is what is inside encrypted reasoning.
type sealedReasoning struct {
	Model string `json:"model"`
	Text  string `json:"text"`
}

// seal returns reasoning in encrypted form, or empty if that cannot be had.
func (c Responses) seal(model, text string) string {
	if c.Seal == nil {
		return ""
	}
	plain, err := json.Marshal(sealedReasoning{Model: model, Text: text})
	if err != nil {
		return ""
	}
	sealed, ok := c.Seal(plain)
	if !ok {
		return ""
	}
	return sealed
}

// unseal returns reasoning that seal encrypted, or empty for what others did.
func (c Responses) unseal(sealed string) string {
	plain, ok := c.Open(sealed)
	if !ok {
		return ""
	}
	var r sealedReasoning
	if err := json.Unmarshal(plain, &r); err != nil {
		return ""
	}
	return r.Text
}
