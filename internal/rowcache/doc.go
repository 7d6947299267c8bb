// Package rowcache is what a member knows of rows by what it has applied: which ones are there (Rows), what the
// columns held that transactions add to (Values), and what is better left alone for a while (Backoff).
//
// Neighbours: deferred feeds it with what node's executor applies and its sessions find, and asks it before they choose
// a plan; the simulator does the same. It uses writeset for rows, and certify for verdicts and for how long an addition
// may take. Time is a number that grows, in whatever unit the owner counts.
//
// Nothing that members agree on depends on it: what it says is tried first, and certified or looked up afterwards.
//
// Invariants:
//
//	K1  A row is in Rows only if the last that was applied to it left it there, but for rows of which 32 bits are the
//	    same (Rows.Saw, Rows.Missed). A table that was emptied or defined anew has no rows in it (Rows.Forget).
//	K2  Rows and Backoff take a fixed amount of memory: what is new drives out something else.
//	K3  A value is that of its row when everything up to Counted.At was applied, and since then nobody has changed it
//	    otherwise than by adding to it. What is applied later is taken in, in the order (Values.Saw); so what a
//	    session has found inside of a group may count that group's additions twice, for which certify.AddedMax leaves
//	    room.
//	K4  A value by which a transaction has lost is not given again before what it has lost to was seen (Values.Lost).
//	K5  A value is given only as long as a transaction that adds to its row can still be ordered in time
//	    (certify.AddedMax).
//
//	K6  What was in vain is not tried again before its time is over, unless the reason is gone (Backoff).
//
// What it does not do: lock (the owner does), wait, ask a database, know sessions.
package rowcache
