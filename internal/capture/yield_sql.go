package capture

// YieldStatement has temporary objects of sessions give way to a definition that has failed because of something that
// depends on what it is about: its place in the order says that it has come to pass. Views are dropped. Tables cannot
// be taken from a session that lives, so the session ends. $1: what the definition drops or changes, as JSON of
// semantics.Subjects. $2: the tables that inherit from it are in the way, or those with columns of its type. Run it as
// a superuser, with the definition's settings, at the beginning of a transaction.
const YieldStatement = "SELECT tutti.yield_temporary(tutti.named($1), $2)"

// sql/yield.sql looks the names up by the search_path of the definition, and finds what depends on these objects in
// pg_depend, or on what goes with them: partitions, indexes, sequences that columns own, row types.
//
// Whose a temporary schema is PostgreSQL does not tell in SQL before version 16, and of an idle session nothing shows
// it. So tutti.ddl notes it with each table, in the transaction that makes it: a table that can be seen has its session
// in tutti.temporary, for a schema is one session's until that has ended. One without a session is what a crash has
// left.
