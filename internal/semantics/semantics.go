package semantics

// Kind says how a statement must be run.
type Kind uint8

const (
	// Read needs no Tutti transaction (M2).
	Read Kind = iota
	// Write runs inside a Tutti transaction, whose writeset is collected.
	Write
	// Unknown is treated like Write (M4).
	Unknown
	// Begin, Commit and Rollback are transaction control; the session answers them.
	Begin
	Commit
	Rollback
	// InTransaction statements (SAVEPOINT, SET TRANSACTION …) only act inside a block.
	InTransaction
	// Local acts on this session or this member only, and may be refused in a
	// transaction block: SET, LISTEN, VACUUM, DEALLOCATE …
	Local
	// Definition takes its own place in the order and runs at every member (DDL).
	Definition
	// Temporary creates something in the session's temporary schema.
	Temporary
	// Copy is COPY … FROM STDIN: a Write that reads from the client.
	Copy
	// Tutti is a SHOW of Tutti's own, answered by the node.
	Tutti
	// Refused cannot be replicated safely; see Refusal.
	Refused
	// Empty is no statement at all.
	Empty
)

// Isolation is a transaction isolation level; the zero value means "not said".
type Isolation uint8

const (
	Unsaid          Isolation = iota
	ReadUncommitted           // acts as READ COMMITTED, and is shown by its own name
	ReadCommitted
	RepeatableRead
	Serializable
)

// SQL gives the level's name as SET TRANSACTION spells it.
func (i Isolation) SQL() string {
	switch i {
	case ReadUncommitted:
		return "READ UNCOMMITTED"
	case RepeatableRead:
		return "REPEATABLE READ"
	case Serializable:
		return "SERIALIZABLE"
	}
	return "READ COMMITTED"
}

// Modes are the options of BEGIN and SET TRANSACTION.
type Modes struct {
	Isolation  Isolation
	Access     string // "", "READ ONLY" or "READ WRITE"
	Deferrable string // "", "DEFERRABLE" or "NOT DEFERRABLE"
}

// SQL gives the modes as BEGIN takes them, with a leading space.
func (m Modes) SQL() string {
	s := ""
	if m.Isolation != Unsaid {
		s += " ISOLATION LEVEL " + m.Isolation.SQL()
	}
	if m.Access != "" {
		s += " " + m.Access
	}
	if m.Deferrable != "" {
		s += " " + m.Deferrable
	}
	return s
}

// Scope says for how long a setting of isolation holds.
type Scope uint8

const (
	NoScope Scope = iota
	// ThisTransaction: SET TRANSACTION, SET transaction_isolation.
	ThisTransaction
	// ThisSession: SET SESSION CHARACTERISTICS, SET default_transaction_isolation.
	ThisSession
	// ResetSession: RESET or DISCARD ALL, set_config; the session asks the server for the default.
	ResetSession
	ResetAll // RESET ALL: as ResetSession, and all settings of the transaction are taken back, too
)

// Refusal is why a statement is refused, with what to do instead.
type Refusal struct {
	Code    string // SQLSTATE
	Message string
	Hint    string
}

// DatabaseChange is what a statement does to the list of databases.
type DatabaseChange uint8

const (
	// NoDatabase: nothing.
	NoDatabase DatabaseChange = iota
	// CreatesDatabase is CREATE DATABASE.
	CreatesDatabase
	// DropsDatabase is DROP DATABASE.
	DropsDatabase
	// RenamesDatabase is ALTER DATABASE … RENAME TO.
	RenamesDatabase

	lastDatabaseChange = RenamesDatabase
)

// Valid reports whether c is one of the above.
func (c DatabaseChange) Valid() bool { return c <= lastDatabaseChange }

// Database is what a statement does to one.
type Database struct {
	Does     DatabaseChange
	Name     string
	To       string // its new name
	IfExists bool
	Force    bool // DROP ends the sessions in it
}

// Cluster is what a statement does to one of the databases, to the list of members, or to what holds for all of them.
type Cluster struct {
	Database   Database
	Membership Membership
	Record     Record
}

// Statement is what Classify found out about one statement.
type Statement struct {
	Kind Kind
	// Text is the statement's own part of the classified text.
	Text string
	// Before counts the characters before Text in the classified text.
	Before int
	// Tag is the command tag to answer for Begin, Commit and Rollback; for what deals with savepoints, or maintains
	// tables and may be run again, its name.
	Tag string
	// Modes of Begin, or of a SET with a Scope.
	Modes Modes
	Scope Scope
	// Chain is AND CHAIN.
	Chain bool
	// Relations a Definition names (as written), to find out whether they are temporary.
	Relations []string
	// Likes are the plain LIKE clauses of a Definition.
	Likes []Like
	// Rights is true for a Definition of rights on objects: GRANT, REVOKE.
	Rights bool
	// Here is true for a Definition that must run at this member first, inside a transaction.
	Here bool
	// Notes is true for a Write whose effect is not rows: its text is carried out at the other members.
	Notes bool
	// Quiet is true for a Definition that fires no event trigger.
	Quiet bool
	// Confined says of a Definition how far it reaches.
	Confined Confined
	// Long says of a Definition what may go on beside it.
	Long Long
	// Ahead is true for a Definition that may be carried out before its turn comes.
	Ahead bool
	// Alone names a Definition, or a Local, that PostgreSQL refuses in a transaction block; a Definition's Text does
	// without CONCURRENTLY.
	Alone string
	// Shares is true for a Definition that waits for who writes to its tables, and not for who reads them.
	Shares bool
	// Concurrent is a Definition that may be carried out CONCURRENTLY at every member; nil for others.
	Concurrent *Concurrent
	// Detach is a DETACH PARTITION in two steps, or its second one; nil for others.
	Detach *Detach
	// Forgets is true when prepared statements vanish (DEALLOCATE ALL, DISCARD ALL).
	Forgets bool
	// Sticky is true when an effect outlives a rollback (PREPARE, DEALLOCATE, LOAD, FETCH), so that the
	// statement cannot be run twice.
	Sticky bool
	// Listens is true when it may change what the session listens to: LISTEN, UNLISTEN, DISCARD
	// ALL. Channel is the one that LISTEN adds.
	Listens bool
	Channel string
	// Many is true when it is likely to change many rows; a guess.
	Many bool
	// Compared says on what that depends if the text alone does not tell.
	Compared *Compared
	// LocksTables is what LOCK TABLE locks.
	LocksTables *TableLock
	// Calls is the name of the procedure that it calls, without its schema. Commits is true for a DO whose text may
	// commit or roll back.
	Calls   string
	Commits bool
	// Code is true if it may make functions that the session alone has, or run queries that are given as text.
	Code bool
	// Shows is true for a SHOW of PostgreSQL's.
	Shows bool
	// Undoes is true for ROLLBACK TO SAVEPOINT, and for PREPARE TRANSACTION, which is refused and rolls its
	// transaction back.
	Undoes bool
	// Later is true when its query may run at COMMIT (DECLARE … WITH HOLD).
	Later bool
	// Locks says which rows it locks, if it does; where that cannot be followed it has no Text.
	Locks *RowLocks
	// Executes is the prepared statement that it executes.
	Executes string
	// Deallocates is the prepared statement that it removes, if it is one.
	Deallocates string
	// Name is what a Tutti SHOW asks for.
	Name    string
	Refusal Refusal
	// Password is that of a Definition of a role, in clear text.
	Password *Password
	// Shared is true for a Definition of what all databases share: roles, and databases themselves.
	Shared bool
	// Cluster is what a Definition does to the cluster as a whole.
	Cluster Cluster
	// Planned is true for a refused query: PostgreSQL analyses queries when they are parsed, other
	// statements when they are executed.
	Planned bool
}

// TableLock is what a LOCK TABLE says. Relations are named as written, quoted; First is the first one's name alone.
// Mode is PostgreSQL's number.
type TableLock struct {
	Relations []string
	First     string
	Mode      int32
	NoWait    bool
}

// NeedsTransaction reports whether the statement must run inside a Tutti transaction.
func (s *Statement) NeedsTransaction() bool {
	switch s.Kind {
	case Write, Unknown, Copy, Temporary:
		return true
	}
	return false
}

// reworded reports whether Text does without CONCURRENTLY.
func (s *Statement) reworded() bool {
	return s.Alone != "" && s.Kind != Local && s.Cluster.Database.Does == NoDatabase
}

// Apart reports whether it is a Local that PostgreSQL may refuse in a transaction block.
func (s *Statement) Apart() bool {
	return s.Kind == Local && (s.Alone != "" || s.Maintains() && s.Tag != "ANALYZE" || s.Forgets && s.Listens)
}

// Savepoint reports whether the statement deals with savepoints.
func (s *Statement) Savepoint() bool { return s.Kind == InTransaction && s.Tag != "" }

// Ends reports whether the statement ends a transaction block, which a failed one takes.
func (s *Statement) Ends() bool { return s.Kind == Commit || s.Kind == Rollback }

// Control reports whether the session itself carries the statement out.
func (s *Statement) Control() bool {
	switch s.Kind {
	case Begin, Commit, Rollback, Definition, Tutti, Refused:
		return true
	}
	return s.Scope == ThisTransaction
}

func refuse(message, hint string) Statement {
	return Statement{Kind: Refused, Refusal: Refusal{Code: "0A000", Message: message, Hint: hint}}
}

// Maintains reports whether a statement changes nothing that is seen, and may be run again if it was ended halfway:
// VACUUM, ANALYZE, CLUSTER, REINDEX. One that is CONCURRENTLY leaves an index behind.
func (s *Statement) Maintains() bool { return s.Kind == Local && s.Tag != "" }
