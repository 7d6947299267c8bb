// Package deferred is what the sessions of one database at one member know of rows, and do to tables, so that some of
// their writes can be deferred:
//
//	values   what the columns of rows held to which transactions add when they commit (decision 0056)
//	present  which rows are there, and which of them are to be left alone for a while
//	claims   who asks for locks on tables, who writes to them, and who changes rows there that it has not seen
//
// Neighbours: node's executor tells it what it applies and what its sessions have committed, its sessions ask it by a
// Session each; package rowcache keeps values and rows, and package intent decides who goes beside whom.
//
// Start reading at Session.PutOff and Session.Blind.
//
// Invariants:
//
//	DF1  What is known of values counts for the tables as they are described now; with other ones nothing is known.
//	     Nothing is known of rows of a table of which somebody asks for locks.
//	DF2  What a group has done to rows is taken in by the order, whether own sessions or the executor have done it.
//	DF3  Who asks for locks waits for those that add to rows there and are under way, for a while, and for none that
//	     comes later: nothing is known any more. A blind transaction does not go beside who has asked for locks.
//	DF4  A blind transaction waits for who writes to its tables, until there are fewer, for a while; if that was in
//	     vain, nobody waits there for a moment. If it must go, it waits for no writer.
//	DF5  A row of which the executor has found that it is not there is not there, and is left alone for RestFor.
//
// No member's decisions depend on it: what it says is tried, and certified or looked up by the executor.
package deferred
