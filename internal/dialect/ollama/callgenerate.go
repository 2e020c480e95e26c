package ollama

import (
	"encoding/json"
	"fmt"

	"mindrouter/internal/llm"
)

// wireGenerate is the body of /api/generate.
type wireGenerate struct {
	Model     string          `json:"model"`
	Prompt    string          `json:"prompt"`
	Suffix    string          `json:"suffix,omitempty"`
	Raw       bool            `json:"raw"`
	Stream    bool            `json:"stream"`
	Format    json.RawMessage `json:"format,omitempty"`
	Options   wireOptions     `json:"options"`
	KeepAlive string          `json:"keep_alive,omitempty"`
}

// EncodeGenerate encodes a request with a plain prompt for /api/generate, always as a stream. Errors are *llm.Error and
// blame the request. r is not changed.
func EncodeGenerate(r *llm.Request, o CallOptions) ([]byte, []llm.Note, error) {
	switch {
	case r.Raw.Tokens != nil:
		return nil, nil, &llm.Error{Code: llm.CodeUnsupported, Param: "prompt", Message: "the model's server takes text, not tokens"}
	case r.Raw.Echo:
		return nil, nil, &llm.Error{Code: llm.CodeUnsupported, Param: "echo", Message: "the model's server does not repeat the prompt"}
	case r.N != nil && *r.N > 1:
		return nil, nil, &llm.Error{Code: llm.CodeUnsupported, Param: "n", Message: "the model's server gives one answer per request"}
	}
	c := call{r: r, o: o}
	w := wireGenerate{
		Model: o.Model.Name, Prompt: r.Raw.Text, Suffix: r.Raw.Suffix, Stream: true, Options: c.options(), KeepAlive: o.KeepAlive,
		Raw: r.Raw.Suffix == "", // with a suffix the server makes the prompt by the model's own template for it
	}
	c.unsupported()
	var err error
	if w.Format, err = c.format(false); err != nil {
		return nil, nil, err
	}
	body, err := marshal(w)
	if err != nil {
		return nil, nil, fmt.Errorf("encode prompt: %w", err)
	}
	return body, c.notes, nil
}
