package backend

import (
	"context"
	"io"
	"net/http"
	"sync"
	"sync/atomic"

	"mindrouter/internal/dialect/ollama"
	"mindrouter/internal/llm"
)

// ollamaClient speaks Ollama's native protocol.
type ollamaClient struct {
	server
	version atomic.Pointer[string]

	mu    sync.Mutex
	shown map[string]llm.Model // by digest: what a model can do changes only with its weights
}

func newOllamaClient(cfg Config, rt http.RoundTripper) *ollamaClient {
	c := &ollamaClient{server: newServer(cfg.URL, cfg.APIKey, rt, ollama.DecodeError), shown: map[string]llm.Model{}}
	c.version.Store(new(string))
	return c
}

// Chat implements Client.
func (c *ollamaClient) Chat(ctx context.Context, call Call) (*Answer, error) {
	o := ollama.CallOptions{
		Model: call.Model, Version: *c.version.Load(), NumCtx: call.Model.ContextLength, InputTokens: call.InputTokens,
	}
	if call.Request.Raw != nil && len(call.Request.Raw.More) > 0 {
		return c.chatEach(ctx, call)
	}
	encode, path := ollama.EncodeChat, "/api/chat"
	if call.Request.Raw != nil {
		encode, path = ollama.EncodeGenerate, "/api/generate"
	}
	body, notes, err := encode(call.Request, o)
	if err != nil {
		return nil, err
	}
	decode := o.Decode(call.Request)
	answer, err := c.stream(ctx, path, body, func(r io.Reader) llm.Stream { return ollama.DecodeChatStream(r, decode) })
	if err != nil {
		return nil, err
	}
	answer.Notes = notes
	return answer, nil
}

// chatEach answers several prompts one after the other, because the protocol takes one in each request. The answers are the
// choices of one, and their counts add up.
func (c *ollamaClient) chatEach(ctx context.Context, call Call) (*Answer, error) {
	prompts := call.Request.Raw.Prompts()
	ask := func(p llm.RawPrompt) (*Answer, error) {
		one := *call.Request
		one.Raw = &llm.RawPrompt{Text: p.Text, Tokens: p.Tokens, Suffix: call.Request.Raw.Suffix, Echo: call.Request.Raw.Echo}
		alone := call
		alone.Request, alone.InputTokens = &one, call.InputTokens/len(prompts)
		return c.Chat(ctx, alone)
	}
	first, err := ask(prompts[0])
	if err != nil {
		return nil, err
	}
	current := first
	all := &Answer{Notes: first.Notes, close: func() { current.Close() }}
	all.Events = func(yield func(llm.Event, error) bool) {
		var before, usage llm.Usage // of the prompts before, and with the current one
		for i, p := range prompts {
			if i > 0 {
				next, err := ask(p)
				if err != nil {
					yield(llm.Event{}, err)
					return
				}
				current = next
			}
			for ev, err := range current.Events {
				if err != nil {
					yield(ev, err)
					return
				}
				if i > 0 && ev.Kind == llm.EventStart {
					continue
				}
				ev.Choice = i
				if ev.Usage != nil {
					usage = before
					usage.Input += ev.Usage.Input
					usage.Output += ev.Usage.Output
					usage.Estimated = usage.Estimated || ev.Usage.Estimated
					sum := usage
					ev.Usage = &sum
				}
				if !yield(ev, nil) {
					return
				}
			}
			before = usage
		}
	}
	return all, nil
}

// Embed implements Client.
func (c *ollamaClient) Embed(ctx context.Context, req *llm.EmbedRequest, m llm.Model) (*llm.EmbedResponse, []llm.Note, error) {
	body, err := ollama.EncodeEmbedCall(req, ollama.CallOptions{Model: m, Version: *c.version.Load(), NumCtx: m.ContextLength})
	if err != nil {
		return nil, nil, err
	}
	reply, err := c.json(ctx, http.MethodPost, "/api/embed", body)
	if err != nil {
		return nil, nil, err
	}
	resp, err := ollama.DecodeEmbedReply(reply, len(req.Inputs))
	return resp, nil, err
}

// Rank implements Client: Ollama has no such endpoint.
func (c *ollamaClient) Rank(context.Context, *llm.RankRequest, llm.Model) (*llm.RankResponse, error) {
	return nil, llm.Errorf(llm.CodeUnsupported, "The model's server does not rank texts.")
}

// CountTokens implements Client: Ollama has no such endpoint.
func (c *ollamaClient) CountTokens(context.Context, *llm.Request, llm.Model) (int, error) {
	return 0, ErrUnsupported
}

// Probe implements Client.
func (c *ollamaClient) Probe(ctx context.Context) (Probe, error) {
	p := Probe{Engine: EngineOllama}
	reply, err := c.json(ctx, http.MethodGet, "/api/version", nil)
	if err != nil {
		return p, err
	}
	if p.Version, err = ollama.DecodeVersion(reply); err != nil {
		return p, err
	}
	c.version.Store(&p.Version)
	if reply, err = c.json(ctx, http.MethodGet, "/api/tags", nil); err != nil {
		return p, err
	}
	tags, err := ollama.DecodeTags(reply)
	if err != nil {
		return p, err
	}
	for _, t := range tags {
		m, err := c.show(ctx, t)
		switch {
		case err != nil && ctx.Err() != nil:
			return p, err
		case err != nil: // one broken model must not hide the others; what it can do is not known
			m = llm.Model{Name: t.Name}
		}
		p.Models = append(p.Models, m)
	}
	if reply, err = c.json(ctx, http.MethodGet, "/api/ps", nil); err != nil {
		return p, err
	}
	running, err := ollama.DecodePS(reply)
	if err != nil {
		return p, err
	}
	p.Resident = []string{}
	for _, r := range running {
		p.Resident = append(p.Resident, r.Name)
	}
	return p, nil
}

// show returns what a model can do, asking once per weights.
func (c *ollamaClient) show(ctx context.Context, t ollama.Tag) (llm.Model, error) {
	key := t.Name + "@" + t.Digest
	c.mu.Lock()
	m, ok := c.shown[key]
	c.mu.Unlock()
	if ok {
		return m, nil
	}
	reply, err := c.json(ctx, http.MethodPost, "/api/show", ollama.EncodeShow(t.Name))
	if err != nil {
		return m, err
	}
	if m, err = ollama.DecodeShow(reply, t.Name); err != nil {
		return m, err
	}
	m.Digest, m.ParameterCount, m.Quantization = t.Digest, t.ParameterCount, t.Quantization
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shown[key] = m
	return m, nil
}
