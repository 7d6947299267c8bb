// Package flow decides how much a member slows its own proposers because some member
// applies more slowly than the cluster writes.
//
// It also declares what waits there are: waits.go has for each who waits, for what, at most how long, and what comes
// then. metrics counts them, and SHOW tutti.waits shows them.
//
// Neighbours: node gathers every member's lag from gossip, asks Decide, and keeps each
// session that has committed waiting for that long before it is answered.
//
// Invariants:
//
//	F1  Nobody is delayed while every synced member lags by no more than the limits. Members
//	    that are away, joining or catching up are not asked at all.
//	F2  The delay grows with the excess of the lag over the limit and never passes
//	    DelayMicrosMax.
//	F3  A member that is not needed for the fastest majority delays by no more than
//	    MinorityPercent of throughput: a majority that keeps up is never stopped for it.
//	F5  A member that is far too slow delays only where it is needed for a majority of those who vote.
//	F4  A decision names the member it was made for.
//
// What it does not do: measure, wait, know time or sessions.
package flow
