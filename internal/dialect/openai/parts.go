package openai

import (
	"encoding/json"
	"strings"

	"mindrouter/internal/dialect"
	"mindrouter/internal/llm"
)

// content decodes the content of a message: a string, a list of parts, or nothing. Empty texts are left out.
func content(raw json.RawMessage) ([]llm.Block, *llm.Error) {
	if dialect.Null(raw) {
		return nil, nil
	}
	if s, ok := dialect.Unquote(raw); ok {
		if s == "" {
			return nil, nil
		}
		return []llm.Block{llm.TextBlock(s)}, nil
	}
	if dialect.Kind(raw) != '[' {
		return nil, llm.Invalid("content", "must be a string or a list of parts")
	}
	var blocks []llm.Block
	for i, item := range dialect.Elements(raw) {
		b, err := part(item)
		if err != nil {
			return nil, dialect.Under(dialect.At("content", i), err)
		}
		if b.Kind != llm.BlockText || b.Text != "" {
			blocks = append(blocks, b)
		}
	}
	return blocks, nil
}

func part(raw json.RawMessage) (llm.Block, *llm.Error) {
	if s, ok := dialect.Unquote(raw); ok {
		return llm.TextBlock(s), nil
	}
	if dialect.Kind(raw) != '{' {
		return llm.Block{}, llm.Invalid("", "must be an object")
	}
	members := map[string]json.RawMessage{}
	for key, value := range dialect.Members(raw) {
		members[string(key)] = value
	}
	kind, _ := dialect.Unquote(members["type"])
	switch kind {
	case "text", "input_text", "output_text":
		s, ok := dialect.Unquote(members["text"])
		if !ok {
			return llm.Block{}, llm.Invalid("text", "must be a string")
		}
		return llm.TextBlock(s), nil
	case "refusal":
		s, _ := dialect.Unquote(members["refusal"])
		return llm.Block{Kind: llm.BlockRefusal, Text: s}, nil
	case "image_url", "input_image":
		return imagePart(members["image_url"], members["detail"])
	case "input_audio":
		b, err := audioPart(members["input_audio"])
		return b, underIf("input_audio", err)
	case "file", "input_file":
		b, err := filePart(members["file"])
		return b, underIf("file", err)
	case "":
		return llm.Block{}, llm.Invalid("type", "is required")
	case "audio_url", "video_url", "image_embeds", "image_pil", "video":
		return llm.Block{}, &llm.Error{Code: llm.CodeUnsupported, Param: "type", Message: "content of type " + kind + " is not supported"}
	default:
		return llm.Block{}, llm.Invalid("type", "unknown type of content")
	}
}

func underIf(parent string, err *llm.Error) *llm.Error {
	if err == nil {
		return nil
	}
	return dialect.Under(parent, err)
}

// imagePart reads image_url, an object with url and detail or, from some clients, the URL itself.
func imagePart(raw, detail json.RawMessage) (llm.Block, *llm.Error) {
	ref, ok := dialect.Unquote(raw)
	path := "image_url"
	if !ok {
		path = "image_url.url"
		for key, value := range dialect.Members(raw) {
			switch string(key) {
			case "url":
				ref, _ = dialect.Unquote(value)
			case "detail":
				detail = value
			}
		}
	}
	if ref == "" {
		return llm.Block{}, llm.Invalid(path, "is required")
	}
	m, err := dialect.Image(ref)
	if err != nil {
		return llm.Block{}, dialect.Under(path, err)
	}
	m.Detail, _ = dialect.Unquote(detail)
	return llm.Block{Kind: llm.BlockImage, Media: m}, nil
}

func audioPart(raw json.RawMessage) (llm.Block, *llm.Error) {
	var payload, format string
	for key, value := range dialect.Members(raw) {
		switch string(key) {
		case "data":
			payload, _ = dialect.Unquote(value)
		case "format":
			format, _ = dialect.Unquote(value)
		}
	}
	if payload == "" {
		return llm.Block{}, llm.Invalid("data", "is required")
	}
	var mediaType string
	switch format {
	case "wav", "flac", "ogg", "opus", "aac", "m4a", "webm":
		mediaType = "audio/" + format
	case "mp3":
		mediaType = "audio/mpeg"
	default:
		return llm.Block{}, llm.Invalid("format", "must be wav or mp3")
	}
	_, data, err := dialect.DataOrBase64(payload)
	if err != nil {
		return llm.Block{}, dialect.Under("data", err)
	}
	return llm.Block{Kind: llm.BlockAudio, Media: &llm.Media{Type: mediaType, Data: data}}, nil
}

// filePart reads an inline file. References to stored files mean nothing here: there is no store of files.
func filePart(raw json.RawMessage) (llm.Block, *llm.Error) {
	var payload, name string
	for key, value := range dialect.Members(raw) {
		switch string(key) {
		case "file_data":
			payload, _ = dialect.Unquote(value)
		case "filename":
			name, _ = dialect.Unquote(value)
		case "file_id":
			return llm.Block{}, &llm.Error{Code: llm.CodeUnsupported, Param: "file_id", Message: "stored files are not supported; send file_data"}
		}
	}
	return inlineFile(payload, name)
}

func inlineFile(payload, name string) (llm.Block, *llm.Error) {
	if payload == "" {
		return llm.Block{}, llm.Invalid("file_data", "is required")
	}
	mediaType, data, err := dialect.DataOrBase64(payload)
	if err != nil {
		return llm.Block{}, dialect.Under("file_data", err)
	}
	if mediaType == "" {
		mediaType = "application/octet-stream"
		if strings.HasPrefix(string(data[:min(len(data), 5)]), "%PDF-") {
			mediaType = "application/pdf"
		}
	}
	if strings.HasPrefix(mediaType, "image/") {
		m, err := dialect.ImageData(data)
		if err != nil {
			return llm.Block{}, dialect.Under("file_data", err)
		}
		return llm.Block{Kind: llm.BlockImage, Media: m}, nil
	}
	return llm.Block{Kind: llm.BlockDocument, Media: &llm.Media{Type: mediaType, Data: data, Name: name}}, nil
}
