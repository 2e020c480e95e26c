package backend

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"

	"mindrouter/internal/dialect/openai"
	"mindrouter/internal/llm"
)

// NewClient returns the client of a backend, by its engine.
func NewClient(cfg Config) Client { return clientOver(cfg, transport()) }

// openAIClient speaks to vLLM and to other OpenAI-compatible servers.
type openAIClient struct {
	server
	engine  Engine
	version atomic.Pointer[string] // of the engine, as last probed
}

func newOpenAIClient(cfg Config, rt http.RoundTripper) *openAIClient {
	c := &openAIClient{
		server: newServer(cfg.URL, cfg.APIKey, rt, openai.DecodeError), engine: cfg.Engine,
	}
	c.version.Store(new(string))
	return c
}

func (c *openAIClient) options(m llm.Model, salt string) openai.CallOptions {
	o := openai.CallOptions{
		Model: m, Engine: openai.EngineOpenAI, Version: *c.version.Load(), CacheSalt: salt,
	}
	if c.engine == EngineVLLM {
		o.Engine = openai.EngineVLLM
	}
	return o
}

// Chat implements Client. A server that refuses the role of a developer, which its model's entry in the configuration
// promised, is asked once more with a system message.
func (c *openAIClient) Chat(ctx context.Context, call Call) (*Answer, error) {
	answer, err := c.chat(ctx, call)
	if err != nil && call.Model.DeveloperRole == string(llm.RoleDeveloper) && refusesDeveloper(err) {
		call.Model.DeveloperRole = string(llm.RoleSystem)
		if answer, err = c.chat(ctx, call); err == nil {
			answer.Notes = append(answer.Notes, llm.Note{Field: "messages.role", What: "system"})
		}
	}
	return answer, err
}

// refusesDeveloper reports whether a server has refused a request because of that role.
func refusesDeveloper(err error) bool {
	return llm.CodeOf(err) == llm.CodeInvalidRequest && strings.Contains(strings.ToLower(llm.AsError(err).Message), "developer")
}

func (c *openAIClient) chat(ctx context.Context, call Call) (*Answer, error) {
	o := c.options(call.Model, call.CacheSalt)
	o.InputTokens = call.InputTokens
	encode, path := openai.EncodeChat, "/v1/chat/completions"
	if call.Request.Raw != nil {
		encode, path = openai.EncodeCompletion, "/v1/completions"
	}
	body, notes, err := encode(call.Request, o)
	if err != nil {
		return nil, err
	}
	decode := o.Decode(call.Request)
	answer, err := c.stream(ctx, path, body, func(r io.Reader) llm.Stream {
		return openai.DecodeChatStream(r, decode)
	})
	if err != nil {
		return nil, err
	}
	answer.Notes = notes
	return answer, nil
}

// Embed implements Client.
func (c *openAIClient) Embed(ctx context.Context, req *llm.EmbedRequest, m llm.Model) (*llm.EmbedResponse, []llm.Note, error) {
	body, err := openai.EncodeEmbedCall(req, c.options(m, ""))
	if err != nil {
		return nil, nil, err
	}
	reply, err := c.json(ctx, http.MethodPost, "/v1/embeddings", body)
	if err != nil {
		return nil, nil, err
	}
	resp, err := openai.DecodeEmbedReply(reply, len(req.Inputs))
	return resp, nil, err
}

// Rank implements Client.
func (c *openAIClient) Rank(ctx context.Context, req *llm.RankRequest, m llm.Model) (*llm.RankResponse, error) {
	path, body, err := openai.EncodeRankCall(req, c.options(m, ""))
	if err != nil {
		return nil, err
	}
	reply, err := c.json(ctx, http.MethodPost, path, body)
	if err != nil {
		return nil, err
	}
	return openai.DecodeRankReply(reply, len(req.Texts))
}

// CountTokens implements Client by vLLM's /tokenize.
func (c *openAIClient) CountTokens(ctx context.Context, req *llm.Request, m llm.Model) (int, error) {
	if c.engine != EngineVLLM {
		return 0, ErrUnsupported
	}
	body, err := openai.EncodeTokenize(req, c.options(m, ""))
	if err != nil {
		return 0, err
	}
	reply, err := c.json(ctx, http.MethodPost, "/tokenize", body)
	if err != nil {
		return 0, err
	}
	count, _, err := openai.DecodeTokenize(reply)
	return count, err
}

// Probe implements Client.
func (c *openAIClient) Probe(ctx context.Context) (Probe, error) {
	p := Probe{Engine: c.engine}
	reply, err := c.json(ctx, http.MethodGet, "/v1/models", nil)
	if err != nil {
		return p, err
	}
	if p.Models, err = openai.DecodeModels(reply); err != nil {
		return p, err
	}
	for i, m := range p.Models {
		p.Models[i] = guess(m)
	}
	if c.engine != EngineVLLM {
		return p, nil
	}
	p.Resident = []string{}
	for _, m := range p.Models { // it loads what it serves when it starts
		p.Resident = append(p.Resident, m.Name)
	}
	if reply, err := c.json(ctx, http.MethodGet, "/version", nil); err == nil { // older versions have none
		if p.Version, err = openai.DecodeVersion(reply); err == nil {
			c.version.Store(&p.Version)
		}
	}
	return p, nil
}
