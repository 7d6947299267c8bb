package capture

// YieldStatement has temporary objects of sessions give way to a definition, $1, that has failed because of something
// that depends on what it is about: its place in the order says that it has come to pass. Views are dropped. Tables
// cannot be taken from a session that lives, so the session ends. $2: only tables that inherit. Run it as a superuser,
// at the beginning of a transaction.
const YieldStatement = "SELECT tutti.yield_temporary($1, $2)"

// sql/yield.sql finds them like tutti.yield_functions: by the names of what they depend on, as words of the text.
//
// Whose a temporary schema is PostgreSQL does not tell in SQL before version 16, and of an idle session nothing shows
// it. So tutti.ddl notes it with each table, in the transaction that makes it: a table that can be seen has its session
// in tutti.temporary, for a schema is one session's until that has ended. One without a session is what a crash has
// left.
