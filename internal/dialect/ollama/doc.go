// Package ollama speaks Ollama's native protocol to backends: /api/chat, /api/embed and the calls that describe a
// server. The native protocol is used rather than the server's /v1 imitation of OpenAI's, because that one cannot set
// the context length, forces sampling parameters and loses errors in the middle of a stream.
package ollama
