// Package executor carries out one group of the order after another at the local PostgreSQL.
//
// Neighbours: the core hands it the groups and hears when one is done; replay changes the database; pending tells the
// sessions to commit what is theirs; deferred hears what became of rows; halt describes what cannot be carried out.
// Node gives it all of these.
//
// Life of a group: gate closed → local transactions told to commit, remote rows applied in one database transaction
// that also writes the progress row → all local commits reported → engine told that the group is done → gate
// opened.
//
// Start reading at Executor.execute.
//
// Invariants:
//
//	EX1  The engine is told that a group is done once everything of it is in the database: others' rows, the sessions'
//	     commits, and the rows of sessions that could not commit. The gate is closed from before the first of these
//	     until then, also while a definition is carried out.
//	EX2  Rows that are applied and that add to others wait until the sessions of the group that add have ended.
//	EX3  Rows of a session whose COMMIT failed are applied in its place, with its mark, unless the database has them.
//	     A session that has found its database to differ ends the process.
//	EX4  What is known of rows that a definition, or a transaction with definitions, makes doubtful is forgotten
//	     before that is visible. What was executed ahead gives way to it.
//	EX5  A replica serves once its own fence of this life is carried out, and no other. A copied database becomes this
//	     member's own there, and begins anew.
//	EX6  What cannot be carried out is tried one by one only before the replica serves, and then halts it. Nothing
//	     behind it is carried out.
//
// What it does not do: decide what is in a group (engine), or who gives way to it (watcher).
package executor
