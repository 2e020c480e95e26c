package backend

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// ProbeConfigured asks a configured backend what it serves.
func ProbeConfigured(ctx context.Context, cfg Config) (Probe, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	rt := transport()
	defer rt.CloseIdleConnections()
	return clientOver(cfg, rt).Probe(ctx)
}

// ProbeAddress finds out what kind of server answers at an address and what it serves: Ollama, vLLM or another
// OpenAI-compatible one.
func ProbeAddress(ctx context.Context, address, key string) (Probe, error) {
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	rt := transport()
	defer rt.CloseIdleConnections()
	base := Config{URL: strings.TrimSuffix(strings.TrimRight(address, "/"), "/v1"), APIKey: key}

	ollama := base
	ollama.Engine = EngineOllama
	p, ollamaErr := clientOver(ollama, rt).Probe(ctx)
	if ollamaErr == nil {
		return p, nil
	}
	if p.Version != "" { // it is one, and something else is wrong
		return Probe{}, fmt.Errorf("the Ollama at %s: %w", base.URL, errors.New(ReasonOf(ollamaErr)))
	}
	vllm := base
	vllm.Engine = EngineVLLM
	p, err := clientOver(vllm, rt).Probe(ctx)
	if err != nil {
		return Probe{}, fmt.Errorf("neither Ollama nor an OpenAI-compatible server answers at %s: %w", base.URL, errors.New(ReasonOf(err)))
	}
	if p.Version == "" { // only vLLM tells its version at /version
		p.Engine = EngineOpenAI
	}
	return p, nil
}

func clientOver(cfg Config, rt http.RoundTripper) Client {
	if cfg.Engine == EngineOllama {
		return newOllamaClient(cfg, rt)
	}
	return newOpenAIClient(cfg, rt)
}
