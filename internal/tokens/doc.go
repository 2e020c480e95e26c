// Package tokens counts prompts without asking the model's server.
//
// There are three answers, from cheap to dear. [UpperBound] cannot be exceeded and needs one pass over the lengths of
// the texts: where it proves that a prompt fits, nothing else is needed. [Estimate] is the same pass with the usual
// number of bytes per token; it is for records and load figures. [Counter.Count] encodes the text with a real
// vocabulary, corrected by what models of that name reported before.
//
// # Why the bound holds
//
// Every tokenizer in use is byte-level BPE or falls back to single bytes, so each token of a text stands for at least
// one byte of it and a text of n bytes has at most n tokens. What the chat template adds is bounded by allowances that
// are several times what known templates add: the markers of a message, the preamble, and the instructions and the
// indentation with which tools are rendered. Media has no such bound, since a vision encoder turns a picture of any
// size into as many tokens as it likes; an image counts [ImageTokens], and the server has the last word.
package tokens
