// Package ordering is Tutti's group communication: one total order of byte strings,
// delivered at every member once a majority has it on disk, over etcd's raft.
//
// Neighbours: engine proposes and receives; node persists what Ready asks for (raftlog)
// and carries its messages (transport). It knows only bytes.
//
// Invariants:
//
//	O1  An entry is delivered only after a majority of the voters has it on disk: the owner
//	    persists Ready.Entries and Ready.HardState before it sends Ready.Late or calls
//	    Advance. A leader's appends (Ready.Early) may travel while its own disk writes,
//	    because its own vote counts only at Advance; what is delivered may be acted on
//	    meanwhile, because it is on the disks of a majority without this one.
//	O2  All members deliver the same entries in the same order, without gaps.
//	O3  A proposal may be lost or delivered twice; the engine numbers its batches.
//	O4  At a leader, proposals wait while others are on their way to a majority, so that one
//	    write and one frame per member serve all that gathered; in the order they came. Where the
//	    owner says so (Gather), they wait until they are enough, or the owner's patience ends (Release).
//	O5  The owner may pause delivery for as long as it likes. What is decided meanwhile is
//	    read from Storage later; raft, and so the other members, do not wait for it.
//	O6  Delivery begins behind Options.Start. A member that lacks entries which the leader no
//	    longer keeps is Lost and delivers nothing more: it never goes on with a gap.
//	O7  A follower finds by itself what is decided of its own entries. Who has one on disk tells its author
//	    as well as the leader, in Ready.Late (in as far as the leader and the author are no majority: the leader
//	    alone); the author goes by the leader's own rule, for the current term only. That saves it the way back from
//	    the leader.
//
//	O8  A member that has lost its log has forgotten its votes, and entries that were decided with its help. It may
//	    begin a log again in a term that a leader has begun since it asked, and of which an entry is decided: both
//	    without it, as it was not there. The leader has been given what was decided until then. Who voted for that
//	    leader takes no entry of an older term any more, so what was, or still could be, decided with the lost log
//	    is in the leader's, and by that entry on a majority without the lost one. The term is far ahead of
//	    all in which the lost one may have voted. (Liskov and Cowling, Viewstamped Replication Revisited, 4.3, in
//	    the terms of raft.)
//
//	O9  Who votes is part of the order: a change is an entry, and holds from where it is decided (two configurations
//	    count while it is under way). Raft is told of it at once, whatever the owner has paused, and the owner before
//	    Advance, so that its log can say which configuration holds behind any entry. A follower finds nothing by
//	    itself (O7) behind a change that is not known to be decided, nor while two configurations count, nor by claims
//	    of members that do not vote. (Ongaro, Consensus: Bridging Theory and Practice, 4.3.)
//
//	O10 What one voter decides alone is on its disk only, which O1 calls a majority. Where the owner says so
//	    (Options.Alone), that voter hands it out once all others have it that it does not Forgo, and others once they
//	    have it on their own disks. Raft does not wait. When others vote as well, that ends behind the change's second
//	    half, which a majority of them has, and so all before it. The one that voted knows of nobody what he has, and
//	    so hands out nothing, while it does not lead.
//
//	O11 Where the owner says who is at one site (Sites), a leader's appends for several members of another site that
//	    are the same leave once, to one of them, which passes them on. Each answers for itself, to the leader and to
//	    authors, so nothing counts that did not before. Who does not answer for some ticks gets them directly for a
//	    while: nothing that others do keeps a member from its log for longer. All appends to a member go the same way
//	    meanwhile, in their order. A member that passes appends on is trusted to say whose they are, as all are to say
//	    who they are themselves.
//
//	O12 A witness votes and has the log on disk as others do, and delivers nothing to anybody. So it needs nothing of
//	    what was decided before it came, nor of what others have dropped: the leader tells it where the log is, and
//	    its log begins behind that. It is elected where nobody else has all that was decided, gives that to another
//	    member, and the lead as soon as one with a database answers; it stands behind all others.
//
// Every method must be called from one goroutine. Time is Tick.
//
// What it does not do: decide which transactions commit, retry proposals, do IO.
package ordering
