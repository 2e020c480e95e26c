// Package scheduler hands out slots: who may use which backend, and when.
//
// A slot is the right to have one request in flight on a backend. Who is next is decided by weighted deficit round robin
// kept in virtual time: start-time fair queueing with several servers, charged in tokens as the virtual token counter
// does, with a bounded credit after an absence and a bounded bonus for waiting. A freed slot goes straight to the request
// that the policy names.
//
// # Words
//
//	domain    backends that compete for the same work: a connected component of the graph of models and backends
//	flow      all requests of one tenant in one domain, or of a pool of tenants that counts as one
//	lane      requests that the same backends may serve: if one finds no free slot there, none does
//	TE        token-equivalent: computed input * 1 + cached input * 0.1 + output * 2, by default, times kappa of the model
//	w         weight of a flow
//	V         counter of a flow: TE charged so far, over w
//	v         virtual clock: how far the service has come, in TE per unit of weight; each backend has one, and each model
//	          with slots of its own on a backend
//	deficit   (v - V) * w: above zero is owed to the flow, below zero is ahead of its share
//	Q         average cost of a request in TE, within 500 to 20,000: the measure of the knobs
//	K         credit, 4 Q: how far behind v a flow may start that comes back
//	W         window, 60 s: what is older is forgotten
//	T         age, 150 s, that earns the whole bonus B = Q/2
//	sigma     slack, Q/2
//
// # The algorithm
//
// A flow that gets work where it had none is activated:
//
//	V = clamp(V, max(v(t-W), v-K), v + max(v - v(t-W), K))
//
// with 0 for the first K if the request is batch. The clock moves only when somebody is served. So an idle machine costs
// its user nothing later, who comes back is served soon but cannot have saved up more than K, and debt of more than the
// clock makes in W, or K where the clock hardly moves, is forgiven.
//
// The next request is the head of the flow with the smallest
//
//	key = V + beta(arrival of the head)
//
// where beta is the bonus clock, which advances by B in T. A bonus that grows at one rate for all orders heads like their
// arrivals do, so keys stay as they are while requests wait, and heaps need no sorting by time. Q, and so B, changes
// slowly; beta integrates the rate, so that this changes no order either. Nobody's bonus exceeds B: most requests are
// refused or served before T, and the stamp of one that may wait longer is brought up when it reaches the top.
//
// Within a flow interactive requests come before standard before batch, each by arrival. A class changes neither price nor
// weight. Of the requests, at most eight, whose keys are within sigma of the smallest, the one that suits the free slot
// best is served.
//
// The served request pays in advance, V += c/w with c = price of its input + half the price of the answer that its flow's
// past answers predict, and then the clock of the backend moves:
//
//	v = max(v, min(V before the charge, V of the first who waits and might have had the slot))
//
// The second term of the minimum matters: without it a flow whose counter has just jumped by a large prepayment would take
// the clock along, and all who come after it would start in debt. While it runs, a request pays for what exceeds its
// prepayment; at the end the charge becomes what it cost, at least 64 TE even if it was cancelled at once. A fault that is
// not the tenant's is refunded in full, and the retry keeps its arrival: it is the head of its flow.
//
// # Why it is fair
//
// Let f and g wait without a break, k the slots that each may hold, C the largest prepayment, O the largest excess over a
// prepayment and R the largest refund. At f's last turn its key was the smallest but for sigma, so V_f <= V_g + B + sigma.
// After that f gains at most one prepayment and what its running requests exceed, and g loses at most its refunds:
//
//	V_f - V_g <= S(f,g) = B + sigma + (C + k_f*O)/w_f + k_g*R/w_g
//
// Delivered service is what was charged less what was charged in advance and not delivered yet, at most k*C. So over any
// time, with H the credit or debt at its start beyond S, which is zero once both were served,
//
//	|W_f/w_f - W_g/w_g| <= S(f,g) + S(g,f) + k_f*C/w_f + k_g*C/w_g + H
//
// a constant: it does not grow with the time, the number of tenants or what they send. A waiting request cannot starve:
// every turn before its own has a key below its own, so the work before it is finite. A tenant who comes back with credit
// gets about the next slot. Bounds of this kind hold for flows that compete in the same lanes, of the same weights
// throughout.
//
// Where some backends are scarcer than others of the same domain, or a model has few slots of its own, their clocks fall
// behind. A flow is activated by the furthest clock of what could serve it, so it waits for its turn there, no longer; and
// those that depend on the scarce ones never hold up the others.
//
// # The parts
//
// [Policy] is the algorithm: a value machine without lock, goroutine or clock, which a simulator drives as well as this
// package does. [Scheduler] is a monitor around the policies of all domains. One mutex guards it; choosing a request and
// taking its slot is one step under it, so a backend never has more requests in flight than it has slots. There is no
// goroutine, no timer and no polling: a waiter is woken, through a channel of capacity 1 after the mutex is free, by a
// release, a change of the fleet, or its own context. A decision takes time in the order of the logarithm of the flows;
// lanes without a free slot and requests at a concurrency limit are out of its way.
//
// # Sources
//
// Start-time fair queueing: Goyal, Vin, Cheng, IEEE/ACM Transactions on Networking 5(5), 1997. With several requests in
// service: Jin, Chase, Kaur, SIGMETRICS 2004. Charging tokens: Sheng et al., Fairness in Serving Large Language Models,
// OSDI 2024 (arXiv 2401.00588). Slack for locality: Cao et al., Locality-aware Fair Scheduling in LLM Serving, 2025 (arXiv
// 2501.14312). Bounded credit: Duda, Cheriton, Borrowed-Virtual-Time scheduling, SOSP 1999. Deficits: Shreedhar, Varghese,
// Efficient Fair Queuing using Deficit Round Robin, SIGCOMM 1995.
package scheduler
