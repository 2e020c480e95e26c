package openai

import (
	"encoding/json"

	"mindrouter/internal/dialect"
	"mindrouter/internal/llm"
)

func (d *decoder) sampling() {
	s, f := &d.req.Sampling, d.f
	*s = readSampling(f)
	s.RepeatPenalty = first(f.Float("repetition_penalty"), s.RepeatPenalty)
	s.MinTokens = f.Int("min_tokens", 0, maxTokens)
	s.IgnoreEOS = f.Bool("ignore_eos")
	s.LogitBias = d.logitBias(f.Take("logit_bias"))
	s.StopTokenIDs = d.tokenIDs("stop_token_ids", f.Take("stop_token_ids"))
	d.req.Logprobs = f.Bool("logprobs")
	d.req.TopLogprobs = f.Int("top_logprobs", 0, 20)
}

// readSampling takes the parameters that the protocol and Ollama's options have in common.
func readSampling(f *dialect.Fields) llm.Sampling {
	return llm.Sampling{
		Temperature:      f.Float("temperature"),
		TopP:             f.Float("top_p"),
		TopK:             f.Int("top_k", -1, 1<<30),
		MinP:             f.Float("min_p"),
		TypicalP:         f.Float("typical_p"),
		RepeatPenalty:    f.Float("repeat_penalty"),
		RepeatLastN:      f.Int("repeat_last_n", -1, 1<<30),
		PresencePenalty:  f.Float("presence_penalty"),
		FrequencyPenalty: f.Float("frequency_penalty"),
		Seed:             f.Int64("seed"),
	}
}

// runnerOptions reads the options of Ollama's own API, which its users send on this path too. They fill what the body
// itself leaves open; those that would change how a model is loaded are dropped.
func (d *decoder) runnerOptions() {
	o := d.f.Object("options")
	s, given := &d.req.Sampling, readSampling(o)
	s.Temperature = first(s.Temperature, given.Temperature)
	s.TopP = first(s.TopP, given.TopP)
	s.TopK = first(s.TopK, given.TopK)
	s.MinP = first(s.MinP, given.MinP)
	s.TypicalP = first(s.TypicalP, given.TypicalP)
	s.RepeatPenalty = first(s.RepeatPenalty, given.RepeatPenalty)
	s.RepeatLastN = first(s.RepeatLastN, given.RepeatLastN)
	s.PresencePenalty = first(s.PresencePenalty, given.PresencePenalty)
	s.FrequencyPenalty = first(s.FrequencyPenalty, given.FrequencyPenalty)
	s.Seed = first(s.Seed, given.Seed)
	if n := o.Int("num_predict", -2, maxTokens); n != nil && *n > 0 { // -1 and -2 mean no bound
		d.req.MaxTokens = first(d.req.MaxTokens, n)
	}
	if stop := d.stop("options.stop", o.Take("stop")); d.req.Stop == nil {
		d.req.Stop = stop
	}
	d.f.Adopt(o.Err())
	for _, name := range o.Rest() {
		d.note(dialect.NoteName("options."+name), "dropped")
	}
}

// first returns the first value that is there.
func first[T any](a, b *T) *T {
	if a != nil {
		return a
	}
	return b
}

func (d *decoder) logitBias(raw json.RawMessage) map[string]float64 {
	if raw == nil {
		return nil
	}
	if dialect.Kind(raw) != '{' {
		d.f.Fail("logit_bias", "must be an object")
		return nil
	}
	bias := map[string]float64{}
	for token, value := range dialect.Members(raw) {
		x, ok := dialect.Float(value)
		if !ok {
			d.f.Fail("logit_bias."+string(token), "must be a number")
		}
		bias[string(token)] = x
	}
	if len(bias) == 0 {
		return nil
	}
	return bias
}

func (d *decoder) tokenIDs(name string, raw json.RawMessage) []int {
	if raw == nil {
		return nil
	}
	if dialect.Kind(raw) != '[' {
		d.f.Fail(name, "must be a list of token ids")
		return nil
	}
	var ids []int
	for i, item := range dialect.Elements(raw) {
		n, ok := dialect.Int(item)
		if !ok {
			d.f.Fail(dialect.At(name, i), "must be a whole number")
		}
		ids = append(ids, int(n))
	}
	return ids
}
