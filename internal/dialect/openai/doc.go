// Package openai speaks the OpenAI protocol in both directions: to clients of /v1/chat/completions, /v1/embeddings and
// /v1/models, and to backends that serve the same paths (vLLM, llama.cpp, SGLang and others).
//
// The client-facing half accepts what clients really send and is strict in what it writes. The backend-facing half is
// the reverse: what a certain server version needs is in one table (quirks.go), and whatever a server answers is
// brought into the grammar of llm.Check or becomes an error. Nothing here guesses: a field that has no place in
// llm.Request and is not on the list of harmless extras is dropped and noted.
package openai
