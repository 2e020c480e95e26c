// Package simbackend is a real HTTP server that behaves as a model server does: vLLM, Ollama, or a generic server with
// the OpenAI API (in the manner of llama.cpp). It is used by tests, by the demo and by load tests.
//
// It has its own wire forms and shares no encoder or decoder with the gateway: a fake that uses the code under test
// proves nothing. What a request is answered with is decided by one engine ([Server] with compose, engine and play);
// the dialect files only decode and encode.
//
// # What is simulated
//
// Answers are deterministic in (seed, model, conversation) and say that they are simulated. At most Slots requests run
// at once and the others wait in arrival order; prompts are read one after another, streams are written at the speed
// that package timing gives for the current batch; all of it multiplied by TimeScale. An Ollama holds a few models in
// memory, loads others on demand and evicts what is idle.
//
// # Steering an answer
//
// These marks in the text of the last user message direct the answer:
//
//	[[tokens=N]]      the answer is exactly N tokens long
//	[[say=TEXT]]      the answer is exactly TEXT
//	[[think=TEXT]]    a thinking model thinks exactly TEXT
//	[[call=NAME {}]]  the offered tool NAME is called with exactly these arguments
//
// A user text that contains the name of an offered tool makes the model call it; several names give several calls in
// the order of the text. After a tool result the answer quotes that result. A request for JSON (a schema, or any
// object) is answered with JSON that conforms. Images are described by count, media type and pixel size.
//
// # Sounds and images
//
// Speech is a WAV whose samples are the bytes of the text, whatever format was asked for but pcm, so that a transcription
// can read it back; any other sound is told by its length. An image is a small PNG whose pixels depend on the prompt and
// on what is edited. Like some servers, images are given by address unless base64 is asked for.
//
// # Tokens
//
// A token is a run of white space, if any, followed by at most eight bytes of text. Token counts in usage, in /tokenize
// and in max_tokens all use this rule, and the tokens of a text joined are the text. An image is 256 tokens.
//
// # Watching and disturbing
//
// Every request is recorded ([Server.Requests]); gauges are exact and can be waited for without polling
// ([Server.WaitFor]). Faults come from rules ([Server.SetFaults]), from a function ([Server.Script]), or as raw bytes
// for one path ([Server.Reply]).
package simbackend
