// Package replica is what one member decides about the other members of one order: who is up and how far, which of
// them leads or slows the writers, how long it waits for them, and how much of the log it keeps for them.
//
//	status     what members tell each other: gossip
//	table      what a member knows of the others by that
//	ways       how far the members are from each other
//	lease      how long what the order has given to its sessions is theirs, and when the others' is not
//	patience   how long a COMMIT waits for a majority
//	rests      whether a member that catches up leaves processors to the others
//	slow       who is far too slow, as the leader has found
//	standing   whether clients should be sent to this member: for writes, for reads
//	listen     who listens to which channels
//	retention  when a checkpoint is taken, and how much of the log is kept for members that are away
//
// Neighbours: node owns the sockets, timers and goroutines, and asks; the simulator asks the same code. lead has the
// rule about the lead of the order, flow the one about members that lag, quorum the one about who votes, and who is far
// too slow for that; they are asked with what the table knows.
//
// Time is an argument: a number in the unit of the Options, of a clock that never goes back.
//
// Invariants:
//
//	RE1  A member is alive in the table for Options.Silent after it was heard last, and not beyond. Of a member that
//	     has ended, by what the network says, nothing is alive until it is heard again.
//	RE2  What a member has told in an earlier incarnation counts no more once it was heard in a later one.
//	RE3  A member is synced from the moment on when it has been near the end of the order once, as long as it serves
//	     and knows a leader. How far behind it is counts from the furthest that anybody has told it.
//	RE4  A wait for the order ends after its time at the next look at which nothing is known of its outcome and
//	     nothing of it still leaves, and never before its time. What was not proposed then never will be.
//	RE5  A checkpoint is stored when all that it stands for is applied, never before.
//	RE6  The log goes up to a checkpoint that is stored, and no further than leaves what is to be kept.
//	RE7  While a member takes a lease for its own, no other takes it for over, as long as no clock goes half as fast
//	     as another one.
//	RE8  Clients that write are sent to a member only while a majority of the members, and the leader among them, was
//	     heard lately, and while it is not far too slow.
//	RE10 What the order knows of a member's channels becomes what its sessions listen to, also after a restart. A
//	    channel is passed on from when an announcement is carried out here until no other member listens.
//	RE11 While a member copies a database, and until it has begun from that, the others keep the log from the entry on
//	    behind which the copy begins, up to LoanFactor times as much as otherwise.
//	RE9  What a member that is away may need is kept until it has told that it needs it no more.
//	RE13 Who is far too slow keeps no more of its log than is kept while somebody copies a database.
//	RE12 A round trip time is what has passed from a word of this member to the other one's that answers it, less the
//	    time in between there; of the last ones the least. What answers an earlier incarnation does not count.
//
// What it does not do: IO, time, goroutines; vote or count votes (ordering); decide verdicts (engine).
package replica
