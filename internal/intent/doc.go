// Package intent is a lock manager for what sessions of one member are about to do to the schema.
//
// A session that comes to an intent asks for it. The session gets the intent at once, or waits for
// the sessions that have a conflicting one, or asked for it earlier. It keeps the intent until its
// transaction ends. An intent keeps no member's data apart: certification decides, with intents or
// without. It only makes sessions wait that would lose to each other.
//
// Neighbours: grants asks for sessions and tells them what Ready returns. Its tests play at random (TestInvariants).
//
// An owner is a session. A resource is a name for what the intents are about. Time is a tick.
//
//	            Ordered   Own               Stays   Bars                 Defines   Maintains
//	Ordered       yes      no      Stays     yes     no      Defines       yes        no
//	Own           no       no      Bars      no      no      Maintains     no         no
//
// Yes: two sessions may have them at the same time. Each of these pairs is asked for of a resource of its own.
//
// Invariants:
//
//	I1  Two owners never have intents of one resource that conflict.
//	I2  An owner waits only while somebody conflicts with it who has the resource, or, unless it has an
//	    intent of it already, who asked for it earlier and waits too. So a request that conflicts with
//	    nobody is granted at once, and requests that conflict are granted in the order in which they came.
//	I3  Every wait ends: the intent is granted, or given up at its deadline, or given up because of I4, or
//	    withdrawn by Release.
//	I4  Owners do not wait for each other in a circle. The edges of a circle are waits for intents, and
//	    waits of which the caller tells (Blocked). Of a circle's owners that wait for an intent here, the
//	    one that asked last gives up; nobody else is touched.
//	I5  What Ready returns is a function of the calls before it, in order.
//
// Beside the manager, Claims say what transactions do to which tables, so that a transaction that changes rows without
// having seen them (a blind one) is not ordered beside sessions that would lose to it:
//
//	C1  A use counts from when it is noted until its transaction ends.
//	C2  A blind transaction does not go beside one that locks rows of its tables, nor, unless it must, beside one that
//	    writes there and sees what it writes. It waits for writers only where that was not in vain lately.
//
// What it does not do: time, IO, goroutines, and ending an owner that gave up; such an owner goes on
// without the intent.
package intent
