// Package semantics is the semantics optimizer (Amir et al., section 3): from a statement's
// text alone it says what the statement may do, and so how a session must run it.
//
// Neighbours: session asks it once per Parse message or per exact text. The grammar is
// PostgreSQL's own (pg_query). It imports nothing of ours.
//
// Invariants:
//
//	M1  Classify is a pure function of the text.
//	M2  A statement called Read may still write (through a function or a view). That is
//	    safe: capture's triggers refuse writes outside a Tutti transaction, and the session
//	    then runs the statement as Write.
//	M3  What would have different effects at different members when run as a statement
//	    everywhere, or would escape capture, is Refused, with a hint.
//	M4  Text the grammar does not know is Unknown: it runs as Write and PostgreSQL, whose
//	    version may be newer, has the last word.
package semantics
