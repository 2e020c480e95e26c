package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"

	"mindrouter/internal/dialect"
	"mindrouter/internal/llm"
)

// ModelCard is a model as /v1/models shows it. It holds what several kinds of readers look for.
type ModelCard struct {
	ID            string
	Created       int64 // seconds since 1970
	OwnedBy       string
	ContextLength int // tokens; 0 leaves it out
}

// EncodeModels returns the body of GET /v1/models.
func EncodeModels(cards []ModelCard) []byte {
	b := []byte(`{"object":"list","data":[`)
	for i, c := range cards {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendCard(b, c)
	}
	b = append(b, `],"has_more":false,"first_id":`...)
	var first, last string
	if len(cards) > 0 {
		first, last = cards[0].ID, cards[len(cards)-1].ID
	}
	b = appendStringOrNull(b, first)
	b = append(b, `,"last_id":`...)
	b = appendStringOrNull(b, last)
	return append(b, "}\n"...)
}

// EncodeAgentModels is [EncodeModels] with the second list that Codex asks for by client_version: without it that agent
// takes every model for one that it does not know.
func EncodeAgentModels(cards []ModelCard) []byte {
	b := bytes.TrimRight(EncodeModels(cards), "}\n")
	b = append(b, `,"models":[`...)
	for i, c := range cards {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"slug":`...)
		b = dialect.AppendString(b, c.ID)
		b = append(b, `,"display_name":`...)
		b = dialect.AppendString(b, c.ID)
		b = append(b, `,"context_window":`...)
		if c.ContextLength > 0 {
			b = strconv.AppendInt(b, int64(c.ContextLength), 10)
		} else {
			b = append(b, "null"...)
		}
		b = append(b, `,"supported_reasoning_levels":[],"apply_patch_tool_type":"freeform","supports_parallel_tool_calls":true}`...)
	}
	return append(b, "]}\n"...)
}

// EncodeModel returns the body of GET /v1/models/{id}.
func EncodeModel(c ModelCard) []byte { return append(appendCard(nil, c), '\n') }

func appendCard(b []byte, c ModelCard) []byte {
	b = append(b, `{"id":`...)
	b = dialect.AppendString(b, c.ID)
	b = append(b, `,"object":"model","created":`...)
	b = strconv.AppendInt(b, c.Created, 10)
	b = append(b, `,"owned_by":`...)
	b = dialect.AppendString(b, c.OwnedBy)
	if c.ContextLength > 0 {
		b = append(b, `,"max_model_len":`...)
		b = strconv.AppendInt(b, int64(c.ContextLength), 10)
		b = append(b, `,"context_length":`...)
		b = strconv.AppendInt(b, int64(c.ContextLength), 10)
	}
	b = append(b, `,"root":`...)
	b = dialect.AppendString(b, c.ID)
	return append(b, '}')
}

// DecodeModels reads a backend's list of models: names, and context lengths under any of the names that servers use.
func DecodeModels(body []byte) ([]llm.Model, error) {
	if !json.Valid(body) {
		return nil, errors.New("model list is not JSON")
	}
	var data json.RawMessage
	for key, value := range dialect.Members(body) {
		if string(key) == "data" {
			data = value
		}
	}
	if dialect.Kind(data) != '[' {
		return nil, errors.New("model list has no data")
	}
	models := []llm.Model{}
	for _, item := range dialect.Elements(data) {
		if m := readCard(item); m.Name != "" {
			models = append(models, m)
		}
	}
	return models, nil
}

func readCard(raw json.RawMessage) llm.Model {
	var m llm.Model
	for key, value := range dialect.Members(raw) {
		switch string(key) {
		case "id":
			m.Name, _ = dialect.Unquote(value)
		case "max_model_len", "context_length", "context_window", "max_context_length":
			if n, ok := dialect.Int(value); ok && n > 0 {
				m.ContextLength = int(n)
			}
		case "meta": // llama.cpp: what it serves, and what the model was trained for
			for _, name := range []string{"n_ctx_train", "n_ctx"} {
				if n := member(value, name); n > 0 {
					m.ContextLength = n
				}
			}
		}
	}
	return m
}

// DecodeVersion reads the answer of vLLM's /version.
func DecodeVersion(body []byte) (string, error) {
	if json.Valid(body) {
		for key, value := range dialect.Members(body) {
			if v, ok := dialect.Unquote(value); ok && string(key) == "version" {
				return v, nil
			}
		}
	}
	return "", errors.New("no version in the answer")
}
