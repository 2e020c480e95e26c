// Package anthropic speaks the Anthropic protocol to clients of /v1/messages, /v1/messages/count_tokens and /v1/models.
// There is no backend-facing half: no backend is called by this protocol.
//
// The decoder accepts what clients really send. A field or header that it does not know is never a reason to refuse a
// request, because clients add them weekly: fields are kept in llm.Request.Extra and noted, and beta headers are not
// looked at. What has no counterpart in a local model is dropped and noted, or in silence where nobody could miss it
// (cache marks, service tiers). Only what would change the meaning of the answer unseen is refused.
//
// # Invariants
//
//   - A conversation renders to the same prompt whatever follows it: system blocks become one text, a client's billing
//     line is removed, and invented ids depend only on their place. The prefix caches of backends live on that.
//   - A stream obeys the grammar of anthropictest.CheckStream: one message_start, blocks one after the other, one
//     message_delta with the totals, message_stop; or an error event, after which nothing follows.
//   - Every thinking block is closed by a signature. It proves nothing to us when it comes back, and none is refused:
//     the protocol demands one, and clients replay it.
package anthropic
