package session

import (
	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/wire"
	"github.com/tuttidb/tutti/internal/writeset"
)

// Phase says what a session is doing, so that its node knows how it may be interrupted.
type Phase uint8

const (
	// PhaseIdle: no transaction is open at the backend.
	PhaseIdle Phase = iota
	// PhaseWaiting: a transaction is open, the client is silent.
	PhaseWaiting
	// PhaseRunning: the backend executes something for the client.
	PhaseRunning
	// PhaseSubmitted: the log decides; the session cannot be interrupted.
	PhaseSubmitted
)

// Submission is a collected transaction handed to the order.
type Submission struct {
	Seq      uint64
	Snapshot bool     // one snapshot, taken at Base; otherwise READ COMMITTED
	Serial   bool     // SERIALIZABLE
	Vouched  bool     // see Host.SerialAlone
	Base     uint64   // applied ordinal at the snapshot, or before the first statement
	Order    uint64   // position of the server's WAL while all row locks were held
	Seen     uint64   // up to where all was applied at Order, at least
	AddBases []uint64 // of the rows that it adds to, in their order: At
	Limits   Limits   // of its wait for other sessions, before the order has it
	Writeset *writeset.Writeset
}

// Decision is the log's answer to a Submission. With Commit the session commits its
// backend at once and calls Host.Committed. Otherwise Err is what the client is told;
// Retry says that the transaction certainly did not commit and may run again.
type Decision struct {
	Commit bool
	Retry  bool
	Err    *wire.SQLError
}

// Definition is a statement to be run at every member.
type Definition struct {
	SQL      string
	Settings []Setting // in order; role and search_path among them
	Steady   bool      // a noted query that calls nothing which writes, so that it changes no rows
	// Extent is what it may change, as it was when everything up to Base was visible: keys, without steps.
	Extent *writeset.Writeset
	Base   uint64
	// Index is what it builds beside everything else, at each member for itself, if it has a name; SQL says
	// CONCURRENTLY then.
	Index Index
	// Detach is the partition whose detachment it begins or ends, if it has a name.
	Detach Detach
	// What it does to one of the databases, or to the list of members.
	semantics.Cluster
	// Began is the list of members as it was configured, for the first change of it. The node's.
	Began []FirstMember
	// ByVoters: who votes where it is ordered begins the order of the database that it creates; else all members do,
	// as long as the order has not changed who they are. The node's.
	ByVoters bool
	// InVain: each time it was looked up, others had defined something of its tables. If it is so again, it waits for
	// those of this member to be done before it is looked up once more.
	InVain bool
	// Limits are those of its wait for other sessions, before the order has it; other members do not get them.
	Limits Limits
}

// FirstMember is one of the members with whom a cluster began.
type FirstMember struct {
	Number                 uint32
	Name, Address, Clients string
}

// Index is one that CREATE INDEX CONCURRENTLY makes, and its table.
type Index struct{ Schema, Table, Name string }

// Detach is a DETACH PARTITION CONCURRENTLY, or its second step: tables by schema and name.
type Detach struct {
	Parent, Partition [2]string
	Refs              [][2]string // tables with foreign keys that refer to the partition
	Ends              bool        // it is the second step
	Waits             bool        // the node's: as PostgreSQL does it, see unmark
}

// Turn is a session's turn to carry out a definition itself, at its place in the order.
type Turn interface {
	// Ended says that the backend's statement is over, with what it failed. It returns what the client is told
	// instead; without Tag and Err that is what the backend has said.
	Ended(failed *wire.ErrorFields) Result
}

// Setting is one configuration parameter of the origin's session.
type Setting struct{ Name, Value string }

// Result is what a Definition or a SHOW gave here.
type Result struct {
	Tag     string
	Notices [][]byte // whole NoticeResponse frames
	Columns []string
	Rows    [][]string
	Err     *wire.SQLError
	Turn    bool // nothing was done yet: it is the session's turn, see Turn
}

// Host is what a session needs of its node, by role. All methods are called from the session's
// goroutine, but Enter also from what Go runs.
type Host struct {
	Control
	Order
	Snapshots
	Intents
	Rows
	Deferred
	Plans
	Definitions
	Status
	Channels
	Advisory
	Procedures
	Sequences
}

// Control tells a session what interrupts it, and runs what goes on beside it.
type Control interface {
	// Enter announces a phase. A non-nil error says the transaction has lost to the applier (40001) and must be rolled
	// back; PhaseIdle forgets that, PhaseSubmitted cannot be doomed any more.
	Enter(Phase) *wire.SQLError
	// Serves says whether the session serves a request or is in a block, when that changes.
	Serves(on bool)
	// Cancelled reports whether the client has asked to cancel what runs, since Enter or since Resuming began. While a
	// request is being done again that counts in any phase.
	Cancelled() bool
	Resuming(on bool)
	// Cancel cancels what the backend executes.
	Cancel()
	// Fate is why the host has ended the session's backend; nil if it has not.
	Fate() *wire.SQLError
	// Dismissed is why the session is to end as soon as no transaction is open in it; nil if it is not. When that
	// changes, a read from the client that is under way, or the next one, times out once.
	Dismissed() *wire.SQLError
	// Clock is the time in milliseconds since some moment.
	Clock() int64
	// Go runs f beside the session. Afterwards a read from the client that is under way, or the next one, times out
	// once, as for a doom. wait waits for all that, over reports whether f has ended.
	Go(f func()) (wait func(), over func() bool)
	// Watch runs f, which reads from the backend, beside the session. When f ends by itself, a read from the client
	// that is under way, or the next one, times out once, and over is true. stop makes f's read time out, unless it
	// has ended, and waits for f's end.
	Watch(f func()) (stop func(), over func() bool)
}

// Order is the cluster's order of transactions, and what this member has applied of it.
type Order interface {
	// Base is the applied ordinal now, after what the session itself has committed.
	Base() uint64
	// Applied is the applied ordinal now.
	Applied() uint64
	// NewSeq names the next transaction to be collected.
	NewSeq() (slot uint32, incarnation, seq uint64)
	// Pass comes before PhaseSubmitted, and waits while another member has a hold of a table of the writeset. With an
	// error the transaction must be rolled back; with 40001 it may run again.
	Pass(ws *writeset.Writeset, limits Limits) *wire.SQLError
	// Submit blocks until the log has decided.
	Submit(Submission) Decision
	// Committed ends a Submission that was decided Commit: ok says whether the backend's own COMMIT succeeded. If not,
	// the node applies the writeset; Committed returns when it is in the database.
	Committed(seq uint64, ok bool)
	// Explain names the conflict that doomed a transaction, given what it wrote; nil if nothing of it collides with
	// what is being applied.
	Explain(*writeset.Writeset) *wire.SQLError
	// BeginLarge is called when the transaction becomes a large one, before more of it is kept. It waits until few
	// others are; the transaction ends with PhaseIdle. With an error that has taken too long, or the transaction has
	// lost meanwhile, or the client has cancelled that.
	BeginLarge() *wire.SQLError
	// Exceeded says that a transaction was refused because it changes too much.
	Exceeded()
}

// Snapshots says when a transaction may take its snapshot, and keeps SERIALIZABLE ones apart.
type Snapshots interface {
	// EnterSnapshot waits for a moment between groups and holds the next one back until LeaveSnapshot; snapshots taken
	// in between see exactly the prefix up to the result. With a non-nil error the transaction lost while it waited,
	// or the client has cancelled that, and nothing is held back.
	EnterSnapshot() (base uint64, doom *wire.SQLError)
	LeaveSnapshot()
	// EnterSafe is EnterSnapshot for a backend that may wait for a safe snapshot. When the next group comes it is
	// cancelled, again and again, until LeaveSafe, which reports whether that has happened. try counts from 0; later
	// ones are held up a little, and without waits it has taken too long. The client's own cancel is an error, too.
	EnterSafe(try int) (base uint64, waits bool, doom *wire.SQLError)
	LeaveSafe() (broken bool)
	// SerialBegin comes before the snapshot of a SERIALIZABLE transaction, whose statements may run from then on. It
	// may have to wait. The transaction ends with PhaseIdle.
	SerialBegin() *wire.SQLError
	// SerialRuns says whether the backend may be doing something in a SERIALIZABLE transaction from now on. It waits,
	// with on, while another one is alone. With an error it lost meanwhile.
	SerialRuns(on bool) *wire.SQLError
	// SerialAlone reports whether a submission would lose by what its transaction has read, but not with Vouched, and
	// no other SERIALIZABLE transaction does anything here until it is decided, and carried out (Submit, Committed),
	// or given up (SerialApart). The backend is still to be asked whether it has refused the transaction.
	SerialAlone(Submission) bool
	SerialApart()
}

// Intents takes what a transaction is about to lock or to write, so that others wait or keep away.
type Intents interface {
	// Hold has the other members hold back transactions that have written to the tables of an extent, until this one
	// ends. It goes on without if that takes too long. With an error the transaction has lost meanwhile, or the client
	// has cancelled that, or the limits have come.
	Hold(extent *writeset.Writeset, limits Limits) *wire.SQLError
	// HoldTables is Hold before tables are locked. It waits for most milliseconds, or without limit if that is zero,
	// while other members' sessions have locked them. Late: that was not enough, or the lock says NOWAIT; nothing has
	// changed. Names without a schema are searched in schemas.
	HoldTables(lock *semantics.TableLock, schemas []string, most int64) (late bool, failure *wire.SQLError)
	// GiveBack ends what Hold and HoldTables have begun.
	GiveBack()
	// Stays says that the transaction writes from here on, and waits for a while for definitions of this member to
	// which all lose that are open. From then on these wait for its end, which is PhaseIdle, for a while. Outdated: one
	// has run since everything up to base was visible. An error is as with Hold. Again: the transaction is done again
	// if it loses, so it is waited for for a moment only.
	Stays(base uint64, again bool, limits Limits) (outdated bool, failure *wire.SQLError)
	// Defines says that a statement outside of blocks is about to define something in its backend, until PhaseIdle, and
	// waits for a while for what Maintains was called for. An error is as with Hold.
	Defines(limits Limits) *wire.SQLError
	// Maintains comes before a statement outside of transactions is run again that maintains tables and was in the way
	// of what is applied, try times, from 1. It rests for longer each time, and then waits for a while for what this
	// member's sessions have written in blocks, and for their definitions, of which no other begins until PhaseIdle. An
	// error is as with Hold.
	Maintains(try int, limits Limits) *wire.SQLError
	// TakeTurns waits while sessions of other members have their turn at rows by which transactions keep losing, until
	// what they have done is seen here; then these rows are this session's until PhaseIdle. It goes on without if that
	// takes too long. With an error the transaction has lost meanwhile, or the client has cancelled that.
	TakeTurns(rows []uint64) *wire.SQLError
	// Contended reports whether there may be such rows, and LostAt that a transaction has lost which had named some.
	Contended() bool
	LostAt(rows []uint64)
	// Locks says, before a statement is run, that it asks for locks on rows of tables of these names, or on whole
	// tables, if there are none. They go with PhaseIdle.
	Locks(tables []string)
	// Writing says, before a statement is run, that it writes to a table of this name, or to any if that is empty. It
	// goes with PhaseIdle.
	Writing(table string)
}

// Rows is what the node knows of single rows.
type Rows interface {
	// Known is what this node knows of a row that may be added to without its lock (decision 0056); false if that is
	// nothing, or not enough, or a session has asked for locks on rows of its table.
	Known(Adds) (Counted, bool)
	// Learn tells what a statement has found in a row that its transaction has not made.
	Learn(Counted)
	// There reports whether a row of a table, by its key, is there by all that the node has seen lately, and whether
	// it is to be left alone.
	There(table, identity uint64) (there, shy bool)
	// LeaveAlone says that a transaction has lost that had rows changed which it did not lock: these are to be left
	// alone for a while.
	LeaveAlone(identities []uint64)
}

// Deferred carries out what a transaction has put off.
type Deferred interface {
	// PutOff comes before additions are submitted, and gives what is Known of their rows then, if all are still.
	// Then who asks for locks on their tables waits until PhaseIdle.
	PutOff([]Adds) ([]Counted, bool)
	// Added comes before Committed of a transaction with additions: their rows were held at a position of the server's
	// WAL. An error is that they are not those to which it adds at the other members.
	Added(seq, order uint64, err error)
	// DefinedUpTo is up to where the definitions are known that a session knows which looks now: for a transaction
	// that sees nothing else.
	DefinedUpTo() (base uint64)
	// Sees is DefinedUpTo for a transaction that looks at rows from now on: it waits until the session sees what it
	// has done before.
	Sees() (base uint64)
	// Blind orders a transaction that has seen nothing, and waits until it is carried out here. done is false if
	// nothing has happened: with Retry because a row is not there, else because it was not tried: somebody here writes
	// to a table otherwise, unless it must.
	Blind(s Submission, must bool) (d Decision, done bool)
}

// Plans is what the sessions of a node have found out about forms of statements.
type Plans interface {
	// CachedPlans is what other sessions of the node have found out about a form or a table, by a key, as of a catalog,
	// and CachePlan adds to that.
	CachedPlans(catalog any, key []byte) []Foreknown
	CachePlan(catalog any, key []byte, k Foreknown)
}

// Definitions carries definitions out at every member.
type Definitions interface {
	// Define orders a statement and waits until it has run here. With code TT004 nothing has happened: it would change
	// tables beyond its extent.
	Define(Definition) Result
	// Detach orders the first step of DETACH PARTITION CONCURRENTLY. It returns when the session's backend is to carry
	// it out, with what PostgreSQL does behind it. If that is not so, the result says why.
	Detach(Definition) (Turn, Result)
	// Main reports whether the session is in the database in whose order is what all databases share. Elsewhere Define
	// passes such a definition on.
	Main() bool
	// Deferrable reports whether the database has constraints or triggers that may fire at COMMIT.
	Deferrable() bool
	// Verifier is what PostgreSQL stores for a password of ASCII characters; md5 says that password_encryption is md5,
	// which takes the role's name as its salt.
	Verifier(password, role string, md5 bool) string
}

// Status answers SHOW tutti.*.
type Status interface {
	// Show answers SHOW tutti.name; ShowColumns only names the columns of the answer.
	Show(name string) Result
	ShowColumns(name string) []string
}

// Channels knows which sessions listen to what.
type Channels interface {
	// MayListen refuses channels that would be too many.
	MayListen(channels []string) *wire.SQLError
	// Listen says to which channels the session listens now. It returns when what other members commit from now on
	// with a notification for them is passed on to here; if that is not certain after a while, with a warning. It
	// keeps channels.
	Listen(channels []string) (warning *wire.SQLError)
}

// Advisory passes on what concerns advisory locks.
type Advisory interface {
	// Lock passes on what a function of the backend, or of one of its parallel workers, asks about advisory locks
	// (capture.LockState), and returns at once; the host answers the function.
	Lock(request string) (worker bool)
	// SettleLocks says that a statement which has asked is over, and with compare that the backend may hold less than
	// it did. It returns when the cluster knows, or after a while.
	SettleLocks(compare bool)
}

// Procedures talks to a transaction that a procedure commits.
type Procedures interface {
	// Attend begins a conversation with a transaction that a procedure commits, and Leave ends it. Say has the
	// transaction carry the n'th command out, and Texts gives the values of the only row of a Reread's query; an error
	// for the client is that its type cannot be known elsewhere. GoesOn has it commit, as Submit has decided, and
	// returns when it has, or could not: it is Committed, also with an error, which is the backend's end. The
	// procedure's next transaction then waits with the first thing that is captured, until Leave. Follows says what
	// that has seen: all that was made visible together with the last.
	Attend(conversation string) error
	Leave()
	Say(n int, command string) error
	Texts(Reread) (array, typ string, err error)
	GoesOn(n int, seq uint64) error
	Follows() (base uint64)
}

// Sequences moves sequences on to other chunks of values.
type Sequences interface {
	// Spent takes PostgreSQL's message about a nextval that found no more values (2200H). If moved, the sequence has
	// gone on to further ones of this node's, and the statement may be repeated. Else bound is the declared one if
	// values of other nodes lie before it.
	Spent(message string) (moved bool, bound string)
}
