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
	AddBases []uint64 // of the rows that it adds to, in their order: At
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
	// Index is what it builds beside everything else, at each member for itself, if it has a name; SQL says CONCURRENTLY then.
	Index Index
	// Detach is the partition whose detachment it begins or ends, if it has a name.
	Detach Detach
	// Database is what it does to one of the databases.
	Database semantics.Database
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
	// Ended says that the backend's statement is over, with what it failed. It returns what the client is told instead; without Tag and Err
	// that is what the backend has said.
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

// Host is what a session needs of its node. All methods are called from the session's
// goroutine, but Enter also from what Go runs.
type Host interface {
	// Base is the applied ordinal now, after what the session itself has committed.
	Base() uint64
	// Cancelled reports whether the client has asked to cancel what runs, since Enter or since Resuming began. While a request is
	// being done again that counts in any phase.
	Cancelled() bool
	Resuming(on bool)
	// Deferrable reports whether the database has constraints or triggers that may fire at
	// COMMIT.
	Deferrable() bool
	// EnterSnapshot waits for a moment between groups and holds the next one back until
	// LeaveSnapshot; snapshots taken in between see exactly the prefix up to the result.
	// With a non-nil error the transaction lost while it waited, or the client has cancelled that, and nothing is held back.
	EnterSnapshot() (base uint64, doom *wire.SQLError)
	LeaveSnapshot()
	// EnterSafe is EnterSnapshot for a backend that may wait for a safe snapshot. When the next group comes it is cancelled, again and
	// again, until LeaveSafe, which reports whether that has happened. try counts from 0; later ones are held up a little, and
	// without waits it has taken too long. The client's own cancel is an error, too.
	EnterSafe(try int) (base uint64, waits bool, doom *wire.SQLError)
	LeaveSafe() (broken bool)
	// SerialBegin comes before the snapshot of a SERIALIZABLE transaction, whose statements may run from then on. It may
	// have to wait. The transaction ends with PhaseIdle.
	SerialBegin() *wire.SQLError
	// SerialRuns says whether the backend may be doing something in a SERIALIZABLE transaction from now on. It waits, with
	// on, while another one is alone. With an error it lost meanwhile.
	SerialRuns(on bool) *wire.SQLError
	// SerialAlone reports whether a submission would lose by what its transaction has read, but not with Vouched, and no other
	// SERIALIZABLE transaction does anything here until it is decided, and carried out (Submit, Committed), or given up
	// (SerialApart). The backend is still to be asked whether it has refused the transaction.
	SerialAlone(Submission) bool
	SerialApart()
	// Clock is the time in milliseconds since some moment.
	Clock() int64
	// BeginLarge is called when the transaction becomes a large one, before more of it is kept. It waits until few others are; the transaction
	// ends with PhaseIdle. With an error that has taken too long, or the transaction has lost meanwhile, or the client has cancelled that.
	BeginLarge() *wire.SQLError
	// Exceeded says that a transaction was refused because it changes too much.
	Exceeded()
	// NewSeq names the next transaction to be collected.
	NewSeq() (slot uint32, incarnation, seq uint64)
	// Enter announces a phase. A non-nil error says the transaction has lost to the
	// applier (40001) and must be rolled back; PhaseIdle forgets that, PhaseSubmitted
	// cannot be doomed any more.
	Enter(Phase) *wire.SQLError
	// Hold has the other members hold back transactions that have written to the tables of an extent, until this one ends. It goes on
	// without if that takes too long. With an error the transaction has lost meanwhile, or the client has cancelled that.
	Hold(extent *writeset.Writeset) *wire.SQLError
	// HoldTables is Hold before tables are locked. It waits for most milliseconds, or without limit if that is zero, while other members'
	// sessions have locked them. Late: that was not enough, or the lock says NOWAIT; nothing has changed. Names without a schema are searched
	// in schemas.
	HoldTables(lock *semantics.TableLock, schemas []string, most int64) (late bool, failure *wire.SQLError)
	// GiveBack ends what Hold and HoldTables have begun.
	GiveBack()
	// Pass comes before PhaseSubmitted, and waits while another member has a hold of a table of the writeset. With an
	// error the transaction must be rolled back; with 40001 it may run again.
	Pass(ws *writeset.Writeset) *wire.SQLError
	// Submit blocks until the log has decided.
	Submit(Submission) Decision
	// Committed ends a Submission that was decided Commit: ok says whether the backend's
	// own COMMIT succeeded. If not, the node applies the writeset; Committed returns when
	// it is in the database.
	Committed(seq uint64, ok bool)
	// Known is what this node knows of a row that may be added to without its lock (decision 0056); false if that is nothing, or not enough, or a session
	// has asked for locks on rows of its table.
	Known(Adds) (Counted, bool)
	// PutOff comes before such additions are submitted, and gives what is Known of their rows then, if all are still. Then who asks for locks on their
	// tables waits until PhaseIdle.
	PutOff([]Adds) ([]Counted, bool)
	// Locks says, before a statement is run, that it asks for locks on rows of tables of these names, or on whole tables, if there are none. They
	// go with PhaseIdle.
	Locks(tables []string)
	// Unseen is up to where the definitions are known that a session knows which looks now: for a transaction that sees nothing else.
	Unseen() (base uint64)
	// Sees is Unseen for a transaction that looks at rows from now on: it waits until the session sees what it has done before.
	Sees() (base uint64)
	// Blind orders a transaction that has seen nothing, and waits until it is carried out here. done is false if nothing
	// has happened: with Retry because a row is not there, else because it was not tried: somebody here writes to a table otherwise, unless it must.
	Blind(s Submission, must bool) (d Decision, done bool)
	// Foreknown is what other sessions of the node have found out about a form, by a key, as of a catalog, and Foreknow adds to that.
	Foreknown(catalog any, key []byte) []Foreknown
	Foreknow(catalog any, key []byte, k Foreknown)
	// There reports whether a row of a table, by its key, is there by all that the node has seen lately, and whether it is to be left alone.
	There(table, identity uint64) (there, shy bool)
	// Shy says that a transaction has lost that had rows changed which it did not lock: these are to be left alone for a while.
	Shy(identities []uint64)
	// Writing says, before a statement is run, that it writes to a table of this name, or to any if that is empty. It goes with PhaseIdle.
	Writing(table string)
	// Learn tells what a statement has found in a row that its transaction has not made.
	Learn(Counted)
	// Added comes before Committed of a transaction with additions: their rows were held at a position of the server's WAL. An error is that they are not
	// those to which it adds at the other members.
	Added(seq, order uint64, err error)
	// Explain names the conflict that doomed a transaction, given what it wrote; nil if
	// nothing of it collides with what is being applied.
	Explain(*writeset.Writeset) *wire.SQLError
	// Applied is the applied ordinal now.
	Applied() uint64
	// Define orders a statement and waits until it has run here. With code TT004 nothing has
	// happened: it would change tables beyond its extent.
	Define(Definition) Result
	// Detach orders the first step of DETACH PARTITION CONCURRENTLY. It returns when the session's backend is to carry
	// it out, with what PostgreSQL does behind it. If that is not so, the result says why.
	Detach(Definition) (Turn, Result)
	// Main reports whether the session is in the database in whose order is what all databases share. Elsewhere
	// Define passes such a definition on.
	Main() bool
	// Verifier is what PostgreSQL stores for a password of ASCII characters; md5 says that password_encryption is
	// md5, which takes the role's name as its salt.
	Verifier(password, role string, md5 bool) string
	// Show answers SHOW tutti.name; ShowColumns only names the columns of the answer.
	Show(name string) Result
	ShowColumns(name string) []string
	// MayListen refuses a channel that would be one too many.
	MayListen(channel string) *wire.SQLError
	// Listen says to which channels the session listens now. It returns when what other members commit
	// from now on with a notification for them is passed on to here; if that is not certain after a
	// while, with a warning. It keeps channels.
	Listen(channels []string) (warning *wire.SQLError)
	// Lock passes on what a function of the backend, or of one of its parallel workers, asks about advisory locks
	// (capture.LockState), and returns at once; the host answers the function.
	Lock(request string) (worker bool)
	// SettleLocks says that a statement which has asked is over, and with compare that the backend may hold
	// less than it did. It returns when the cluster knows, or after a while.
	SettleLocks(compare bool)
	// Attend begins a conversation with a transaction that a procedure commits, and Leave ends it. Say has the transaction
	// carry the n'th command out, and Texts gives the values of the only row of a Reread's query; an error for the client
	// is that its type cannot be known elsewhere. GoesOn has it commit, as
	// Submit has decided, and returns when it has, or could not: it is Committed, also with an error, which is the backend's end. The procedure's next transaction then waits
	// with the first thing that is captured, until Leave. Follows says what that has seen: all that was made visible together with the last.
	Attend(conversation string) error
	Leave()
	Say(n int, command string) error
	Texts(Reread) (array, typ string, err error)
	GoesOn(n int, seq uint64) error
	Follows() (base uint64)
	// Cancel cancels what the backend executes.
	Cancel()
	// Spent takes PostgreSQL's message about a nextval that found no more values (2200H). If moved, the sequence has
	// gone on to further ones of this node's, and the statement may be repeated. Else bound is the declared one if
	// values of other nodes lie before it.
	Spent(message string) (moved bool, bound string)
	// Fate is why the host has ended the session's backend; nil if it has not.
	Fate() *wire.SQLError
	// Dismissed is why the session is to end as soon as no transaction is open in it; nil if it is not. When that
	// changes, a read from the client that is under way, or the next one, times out once.
	Dismissed() *wire.SQLError
	// Watch runs f, which reads from the backend, beside the session. When f ends by itself, a read from
	// the client that is under way, or the next one, times out once, and over is true. stop
	// makes f's read time out, unless it has ended, and waits for f's end.
	Watch(f func()) (stop func(), over func() bool)
	// Go runs f beside the session. Afterwards a read from the client that is under way, or
	// the next one, times out once, as for a doom. wait waits for all that, over reports
	// whether f has ended.
	Go(f func()) (wait func(), over func() bool)
}

// Collector is how a session gets a transaction's writeset out of its backend: frames to
// send and a decoder for what comes back. It is capture's, handed in by the node.
type Collector interface {
	// AppendPrepare adds Parse messages for the statements AppendCollect uses.
	AppendPrepare(dst []byte) []byte
	// AppendCollect adds Bind and Execute messages, without Sync. It marks the transaction if
	// something was captured, or anyway.
	AppendCollect(dst []byte, slot uint32, incarnation, seq uint64, anyway bool) []byte
	// AppendAhead is AppendCollect without firing what is deferred, for a transaction that goes
	// on. In a session with temporary objects, which may have something deferred of their
	// own, it does nothing, see Collected.
	AppendAhead(dst []byte, slot uint32, incarnation, seq uint64, anyway bool) []byte
	// AppendPeek is AppendCollect that changes nothing; AppendFreeze puts a writeset in place of all
	// that was captured so far.
	AppendPeek(dst []byte) []byte
	AppendFreeze(dst []byte, ws *writeset.Writeset) []byte
	// AppendAskFollow asks what must be done about definitions that were noted, AppendFollow
	// takes the answer, one value, and does it. What cannot be replicated is a *wire.SQLError.
	AppendAskFollow(dst []byte) []byte
	AppendFollow(dst, answer []byte) ([]byte, error)
	// AppendNote notes a definition that fires no event trigger.
	AppendNote(dst []byte, d Definition) ([]byte, error)
	// AppendTablesLocked asks which tables LOCK TABLE has locked; TablesLocked takes the only value of the answer.
	AppendTablesLocked(dst []byte) []byte
	TablesLocked(answer []byte) ([]writeset.TableLock, error)
	// Carried are the settings a definition runs under, besides the role.
	Carried() []string
	// Decode reads the DataRows, values as received. returned is what direct statements have
	// returned, in order.
	Decode(rows [][][]byte, returned []Returned) (Collected, error)
	// AskDirect is a query for the table that a direct statement would change. Direct takes the
	// values of its only row, in text, and makes the statement direct, if that is possible.
	AskDirect(d *semantics.Direct) (sql string)
	Direct(d *semantics.Direct, answer [][]byte) (Rewritten, bool)
	// AskGlance and Glance are the same for a SELECT with parameters of these types, as far as they are prescribed, at a row that is changed as one with this image is, or not
	// if it is nil. Settings is what of an image matters.
	AskGlance(g *semantics.Glance) (sql string)
	Settings(image []byte) []byte
	ReadGlance(values [][]byte) (began Began, who string, err error)
	Glance(g *semantics.Glance, types []uint32, answer [][]byte, image []byte) (Glance, bool)
	// Catalog is another value after every definition; compared only.
	Catalog() any
	// Secret ends the names of statements that are the session's own.
	Secret() string
	// Code reports whether the database has functions that are neither PostgreSQL's nor Tutti's own.
	Code() bool
	// EventTriggers reports whether the database has event triggers of users.
	EventTriggers() bool
	// AskEventTriggers is a condition in SQL: whether it has some that are enabled.
	AskEventTriggers() string
	// Outside reports whether a statement may do something outside of the database, that ROLLBACK does not undo, as far as its text and the catalog tell.
	Outside(sql string) bool
	// Mark stands in the text of everything rewritten or marked, and in no client's.
	Mark() string
	// Lockable reports whether relations of these names, unqualified, may all be tables.
	Lockable(names []string) bool
	// AppendLocked asks which rows these are, in the transaction that has locked them, and Locked reads the only
	// value of the answer, in binary: the position of the server's WAL, and the rows that were
	// not changed since. ok is false if none of them is replicated.
	AppendLocked(dst []byte, rows []semantics.LockedRow) (frames []byte, ok bool)
	Locked(rows []semantics.LockedRow, answer []byte) (order uint64, locks []writeset.Lock, tables []writeset.TableLock, err error)
	// AskNames is a query for what relations are, as SQL has them; Names takes its rows, in text.
	AskNames(relations []string) (sql string)
	Names(rows [][][]byte) (Names, bool)
	// Pins says which rows and tables the statements of a transaction have looked for, which are all it has run. oids says what
	// their relations are. ok is false if that is not known.
	Pins(runs []Run, oids map[string]uint32) (pins Pins, ok bool)
	// AskConcurrent asks for the table, in text, on which every member may build an index for itself; Concurrent takes the only
	// value of the answer, nil if it may not. The writeset has what must not have changed.
	AskConcurrent(c *semantics.Concurrent) (sql string)
	Concurrent(answer []byte, c *semantics.Concurrent) (Index, *writeset.Writeset, error)
	// AskDetach asks for the tables of a DETACH PARTITION, in text; Detach takes the only value of the answer, nil if it is not to be done
	// in two steps. The writeset is the extent of the first one.
	AskDetach(d *semantics.Detach) (sql string)
	Detach(answer []byte) (Detach, *writeset.Writeset, error)
	// TurnStatements are what goes before and after a definition that the backend carries out at its place, see Turn.
	TurnStatements() (on, off string)
	// AskExtent asks which tables a definition may change, Extent takes the only value of the answer and makes a
	// writeset without steps of it. Without an answer it is a barrier.
	AskExtent(st *semantics.Statement) (sql string)
	Extent(answer []byte, st *semantics.Statement) (*writeset.Writeset, error)
	// Unkeyed reports whether an UPDATE or DELETE looks for rows by no column of a key, in a table that can be captured as a whole.
	// What it knows may be out of date, and without a schema it may mean any table of the name.
	Unkeyed(c *semantics.Compared) bool
	// Piecewise reports whether a table is captured row by row, whatever is said of the statement. Like Unkeyed it may be wrong.
	Piecewise(schema, table string) bool
	// BulkMark begins the text of a statement that may be captured as a whole, and no client's has it.
	BulkMark() string
	// InsideMessage reads what a transaction that a procedure commits says in an INFO (capture.InsideState). Its kind is "commit",
	// "row", whose rest ReadRecord reads, "done", or "cancelled". Not ok: a client made it up.
	InsideMessage(message string) (conversation, kind, rest string, ok bool)
	ReadRecord(text string) ([][]byte, error)
	// InsideCommand, AskFollowCommand and FollowCommand are AppendCollect, AppendAskFollow and AppendFollow as commands that can
	// be said to it.
	InsideCommand(slot uint32, incarnation, seq uint64) string
	AskFollowCommand() string
	FollowCommand(answer []byte) (string, error)
	// AppendMark adds Bind and Execute messages that mark a transaction of nothing but direct
	// statements, without Sync.
	AppendMark(dst []byte, slot uint32, incarnation, seq uint64) []byte
}

// Rewritten is a statement that returns what it changes, as the collect step would.
type Rewritten interface {
	SQL() string
	// Columns is how many columns of its result, the first ones, are its own. The others are the client's.
	Columns() int
	// Read decodes its own columns of a row, values in binary, and copies what it keeps.
	Read(values [][]byte) (Returned, error)
	// Table is the OID of the table that it changes, Name its name without the schema, and Inserts says whether it is an INSERT.
	Table() uint32
	Name() string
	Inserts() bool
	// Blind reports whether it can be carried out unseen by itself, and Unseen is what does so with the parameters of a Bind, a whole frame, in a transaction that has begun
	// then; false if that cannot be with these. Proves reports whether a row that it has returned is what Unseen makes.
	Blind() bool
	Unseen(bind []byte, began Began) (Unseen, bool)
	Proves(bind []byte, row Returned) (shape string, ok bool)
	// Probe is a statement that returns a row, of a Glance's own columns, if the row of an Unseen is there, and AppendProbe binds it.
	Probe() string
	AppendProbe(dst []byte, name string, what *Unseen) ([]byte, error)
	// Adds tells what it adds to which row with the parameters of a Bind, a whole frame; false if it does not just add to one that its key
	// finds. Counted takes what is to be known of such a row, before by was added, and Addition tells others what is added; false if it may be too much.
	Adds(bind []byte) (Adds, bool)
	Counted(row Returned, by []int64) (Counted, bool)
	Addition(row Counted, by []int64) (writeset.Addition, bool)
}

// Glance is a SELECT of one row, found by its key, that shows the row as it is with a change that was put off.
type Glance interface {
	SQL() string
	// Columns is how many columns of its result, the first ones, are its own. The others are the client's.
	Columns() int
	// At is the identity of the row that it is at with the parameters of a Bind, a whole frame; false if that is not certain. AppendBind binds the statement of a name with
	// those, to show the row changed as one with this image is, or as it is if that is nil; formats are those of the client's columns.
	At(bind []byte) (identity uint64, ok bool)
	AppendBind(dst []byte, name string, bind, image []byte, formats []int16) ([]byte, error)
	// Read decodes its own columns: when the transaction began, and who it is, as Returned.Who.
	Read(values [][]byte) (began Began, who string, err error)
}

// Unseen is a change of a row that is carried out unseen.
type Unseen struct {
	Table   writeset.Table
	Row     writeset.Row
	Shape   string // of parameters: what PostgreSQL has read in a shape is read alike here
	Tag     string // what the client is told if the row was there
	Inserts bool   // it makes a row that its transaction has deleted anew
	Puts    bool   // it makes a row of a table without a key, which needs nothing
}

// Began is when a transaction began by its database's clock, and in its time zone: microseconds since the year 2000.
type Began struct {
	Known        bool
	Stamp, Local int64
}

// Adds is an addition to a row.
type Adds struct {
	Table uint32 // its OID
	Name  string // and its name, without the schema
	Row   string // a name of the row, for Host.Known
	Shape string // of parameters: those that PostgreSQL can read are of the same shape
	By    []int64
}

// Counted is what the columns of a row held that are added to, at some moment.
type Counted struct {
	Row      string // as Adds names it
	Identity uint64
	Key      []byte // a record of the key's columns
	Values   []int64
	At       uint64 // the ordinal of that moment, or a lower one, since when the row has not changed but by additions
	Changed  uint64 // the host's: the ordinal of such a change, if one is known of
	Columns  interface {
		// Read takes values from a row's image, and Sum adds an addition's image to values; false if they cannot be known.
		Read(image []byte) (values []int64, key []byte, ok bool)
		Sum(values []int64, image []byte) bool
	}
}

// Returned is a row that a Rewritten has returned.
type Returned interface {
	// Captured reports whether it will be collected, as everything that follows it will.
	Captured() bool
	// Forged reports whether something was although the row says it was not: a function has set what tells it.
	Forged() bool
	// Alone reports whether up to here nothing is to be collected but what was returned,
	// and nothing is deferred. snapshot says whether the transaction is meant to have one.
	Alone(snapshot bool) bool
	Size() int // in bytes, about
	// Who is another value under another role or search_path.
	Who() string
	// Identity is the row's, and Order the position of the server's WAL when the statement had it.
	Identity() uint64
	Order() uint64
}

// Reread is a query for rows to be read again.
type Reread interface {
	// Append adds it as frames, without Sync.
	Append(dst []byte) []byte
	// Command is it as a command, see Host.Say, given its parameter as text and the name of its type. Array is the query that
	// gives these two, with its only parameter.
	Command(array, typ string) string
	Array() (sql string, oid uint32, format int16, value []byte)
}

// Collected is a decoded writeset that may still want rows to be read again.
type Collected interface {
	// Order is the position of the server's WAL while the transaction held its locks.
	Order() uint64
	// Unfollowed reports whether nothing was collected, because definitions must be followed up.
	Unfollowed() bool
	// All reports whether an answer to AppendAhead is complete.
	All() bool
	// Isolation is the transaction's level as the server spells it; empty if nothing was
	// written.
	Isolation() string
	// Rereads are queries to run; the rows of the i-th go to Complete.
	Rereads() ([]Reread, error)
	Complete(i int, rows [][][]byte) error
	// Writeset is the result, nil or empty when nothing was written.
	Writeset() (*writeset.Writeset, error)
}
