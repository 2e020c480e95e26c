// Package llm holds the canonical form of a model request and of its answer.
//
// Every client protocol is decoded into these types and every backend protocol is encoded from them, so N protocols
// need N translators and not N times M. The package imports only the standard library and does no I/O.
//
// # Invariants
//
//   - An optional value is a pointer, or a slice or map that may be nil: absent differs from zero.
//   - Content is an ordered list of [Block] values. Order is meaning: thinking, text and tool calls may alternate.
//   - Tool arguments and schemas are raw JSON. They are never decoded into Go numbers, so digits survive.
//   - A [Stream] obeys the grammar of [Check]: it is what every encoder may rely on and what every decoder must produce.
//   - What a translation cannot carry over is a [Note]; it is told to the caller and never dropped in silence.
//   - [Request.Extra] carries fields that we do not know to a backend of the same dialect, and nowhere else.
package llm
