// Package conformance holds one table of rules about translation between protocols, and runs every rule through a whole
// gateway: a client of one protocol in front, a scripted model server of another behind, HTTP on both sides.
//
// A rule is a sentence. It is tried in every cell of a matrix: answers whole and streamed, against a backend that speaks
// vLLM's protocol and one that speaks Ollama's. A cell that makes no sense is excused in the table, with a reason; a cell
// that is neither tried nor excused fails. In a streamed cell the same request is made whole as well: what a client puts
// together from the stream must be the whole answer, and the backend must have been asked the same.
//
// Every stream that a client gets is read by the strict checker of its protocol. A rule that the gateway is known to break
// stands in the table of known faults; when the fault is gone, its entry fails, so that the table cannot rot.
package conformance
