// Package realmodels lets tests talk to model servers that this project did not write, with models of
// which the test knows what they will say.
//
// The servers are Ollama, built for CPU, and the server of llama-cpp-python; `make test-real` builds
// both and compiles the tests with the build tag real, without which this package only generates
// models. A simulated server proves what we believe about a protocol. A real one proves that the
// belief is right.
//
// Speech comes from programs of Debian, Flite and PocketSphinx, behind a small server of this package
// that speaks OpenAI's protocol for audio.
//
// The models for Ollama are generated: transformers of the llama architecture with two layers and a
// byte-level vocabulary, small enough to load in a fraction of a second. There are three kinds.
//
//   - Scripted: attention and feed-forward are zero, each token is embedded in a dimension of its own,
//     and the output matrix is a table from a token to its successor. The table chains the pieces of a
//     text, starting from the special token that ends the prompt, so the model says that text whatever
//     it is asked, at any temperature. A template that ends the prompt with another token makes it say
//     another text: a thought and an answer, a tool call, or the answer to a tool's result.
//   - Typing: the same table filled with noise, in which whatever closes a JSON value is likely. Under
//     a grammar it types random, short, valid JSON.
//   - Embedding: attention that looks at every token alike and passes its embedding on, so that a text
//     is embedded as the mean of its bytes, and texts with common letters are near each other.
package realmodels
