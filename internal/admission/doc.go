// Package admission says who of a member's sessions goes on, and who waits.
//
//	gate      snapshots that must see a prefix of the order wait for the end of a group, and groups for them
//	turns     while many transactions lose, only some of those that write run at once
//	larges    only some large transactions are kept in memory at once
//	throttle  while a member lags, clients whose transactions have committed are answered later
//	deadline  by its client's settings, a session's wait for others ends
//
// Neighbours: node's executor closes and opens the gate, its sessions call the rest; flow decides how many turns there
// are, and how long a delay is. The throttle and deadlines go by a Clock.
//
// Invariants:
//
//	AD1  Nobody holds the gate while a group is carried out, and no group begins while somebody does (N3 of node). A
//	    group that waits keeps out who comes later.
//	AD2  Who may hold the gate for long is broken off when a group comes.
//	AD3  Who waits for a turn, or for memory, is let in by the order of coming, and waits for a bounded time.
//	AD4  A delay comes after the transaction has committed, when it holds no locks: it slows nobody but its client.
//
// What it does not do: know transactions, or decide who loses.
package admission
