// Package quorum is the rule by which a leader changes who votes: members that are gone stop voting, so that the rest
// can lose another one, and vote again when they have come back. That is dynamic voting (Jajodia and Mutchler, Dynamic
// Voting Algorithms for Maintaining the Consistency of a Replicated Database) over raft's configurations, which know no
// weights: each has a majority of the one before, so there is never another cluster beside it.
//
// Neighbours: engine asks it at every tick, with what ordering knows, and proposes what it wants. Whether it comes to
// that is up to the order.
//
// Invariants:
//
//	Q1  Nothing is wanted while all voters are there, but more of them, or others that rank higher; but for Q3.
//	Q2  The leader votes, but for Q3. So do as many members at least as make the copies wanted a majority, or all of
//	    fewer that may: else the last copy of a commit could be lost with one that is only away.
//	Q3  Wanted is an odd number: one more makes nobody safer, and commits slower. Of two members both vote, or if one
//	    copy is enough, the first one alone, whoever leads, so that it can lose the other one in every order. The
//	    first one is that of the higher rank, of equal ones that of the lower number; it has a database.
//	Q10 A member is far too slow that was further behind than farLoad for a window of time without a break, stood
//	    still for less than half of it, and applied less than half of what was ordered; or was so for standsMax
//	    windows, and came no nearer. Not while no majority of the voters keeps up. It is so until it was near the end
//	    for a window, and twice as long for each time before that its leader knows of. A leader goes on from what the
//	    one before has found.
//	Q11 Who is far too slow stops voting, as one that is gone, where three others can vote, and as many as make the
//	    copies wanted a majority. Else it votes, if nobody else can in its place.
//	Q4  A member that is gone votes again when it has been there for as long as it takes to be gone, and twice as long
//	    for each time before; and has what has been decided, but for LagMax entries.
//	    A witness votes for the first time only while so many members with a database as copies are wanted have what
//	    was decided, or all of fewer: it has nothing of that.
//	Q5  Nothing is wanted while a voter is silent that is not gone yet, or may be because this leader leads just now:
//	    if it were to vote and is on its way out, what was begun could not be ended without it.
//	Q7  A leader that votes alone, where one copy is enough, waits with what is decided for all others that may vote
//	    and have what was decided before, until they are gone, or have said that they stop and are silent. So there is
//	    one copy only where the others are known to be gone; and none of them can go on without it.
//	Q8  Who may never vote (Role.Learner) is followed at once where it votes, as one that is gone. Of the others those
//	    vote that rank higher, then those with a database, those that vote already, those of the lowest numbers.
//	    Somebody who votes always has a database.
//	Q9  Who votes alone and stops is not the first one while another one can be. So that one votes as well, leads, and
//	    is left to vote alone, before the other one has stopped.
//
// View says in advance what becomes of a cluster that loses members, by the same rule (View.AtOnce, View.InTurn):
//
//	Q6  What is said to go on does, whoever leads, as long as those that are there have what was decided and the
//	    losses of InTurn are as far apart as it takes to be gone and to change who votes.
//
// Time is Tick. What it does not do: decide who is a member; know what is committed.
package quorum
