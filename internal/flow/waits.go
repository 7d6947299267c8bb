package flow

// Wait is something that a session, or a goroutine of the node, waits for because there are other members.
type Wait uint8

// The waits of sessions come first, in the order in which a transaction meets them; then those of the node. Each has
// its row in Waits.
const (
	WaitDatabase Wait = iota
	WaitOwnCommit
	WaitLong
	WaitTurn
	WaitSerial
	WaitSnapshot
	WaitSafe
	WaitLock
	WaitRow
	WaitAdvisory
	WaitInside
	WaitLarge
	WaitHeldBack
	WaitReadBack
	WaitDryRun
	WaitDefiner
	WaitBlocks
	WaitRowLocks
	WaitBlind
	WaitOrder
	WaitDefinition
	WaitApplied
	WaitSlowed
	WaitListen
	WaitSums
	WaitSlot
	WaitSnapshots
	WaitCommits
	WaitDeltas
	WaitGather
	WaitKept
	WaitRest
	WaitDrain
	waits
)

// Setting names of the configuration that bound waits.
const (
	byCommitTimeout = "commit_timeout_ms"
	byTurns         = "turns_percent"
)

// Waiter is one row of the table of waits: who waits, for what, and for how long at most.
type Waiter struct {
	Name    string
	Who     string
	For     string
	MostMs  int64  // in milliseconds; zero: see Setting, and if that is empty as well there is no bound
	Setting string // of the configuration: bounds the wait if MostMs is zero, else switches it off
	Then    string // what happens when that is over
}

// Waits lists all waits. What bounds one is here, and nowhere else.
var Waits = [waits]Waiter{
	WaitDatabase: {Name: "database", MostMs: 5000,
		Who:  "a client that logs in",
		For:  "its database to be opened, which was just made or is starting",
		Then: "57P03"},
	WaitOwnCommit: {Name: "own_commit",
		Who: "a session's next transaction",
		For: "the session's last one, or what that lost to, to be applied here"},
	WaitLong: {Name: "long_definition", MostMs: 3000,
		Who:  "a transaction that lost to a long definition, before it begins again",
		For:  "the definition's end",
		Then: "it begins"},
	WaitTurn: {Name: "turn", MostMs: 100, Setting: byTurns,
		Who:  "a transaction of a session that writes, before it begins",
		For:  "fewer to run at once, as too many of them lose",
		Then: "it begins"},
	WaitSerial: {Name: "serializable", Setting: byCommitTimeout,
		Who:  "a SERIALIZABLE transaction",
		For:  "the order to know that this member runs such ones, or another one to be alone",
		Then: "57P03"},
	WaitSnapshot: {Name: "snapshot",
		Who: "a REPEATABLE READ transaction, before its snapshot",
		For: "the group that is being applied"},
	WaitSafe: {Name: "safe_snapshot", MostMs: 10_000,
		Who:  "a SERIALIZABLE READ ONLY DEFERRABLE transaction",
		For:  "a safe snapshot between two groups",
		Then: "any snapshot will do"},
	WaitLock: {Name: "table_lock", MostMs: 60_000,
		Who:  "a definition or LOCK TABLE",
		For:  "the other members to hold back who writes to its tables",
		Then: "it goes on without"},
	WaitRow: {Name: "row_turn", MostMs: 2000,
		Who:  "a statement in a READ COMMITTED block that changes or locks a row by which transactions keep losing",
		For:  "sessions of other members that have their turn at the row to end",
		Then: "it goes on without"},
	WaitAdvisory: {Name: "advisory_lock",
		Who: "a function that takes an advisory lock",
		For: "the order to give the lock"},
	WaitInside: {Name: "procedure_commit",
		Who: "a procedure that commits",
		For: "its transaction to be applied here"},
	WaitLarge: {Name: "large_transactions", Setting: byCommitTimeout,
		Who:  "a COMMIT of more than 16 MiB",
		For:  "fewer of them at this member (large_transactions)",
		Then: "53400"},
	WaitHeldBack: {Name: "held_back", MostMs: 60_000,
		Who:  "a COMMIT that writes to tables which another session locks or defines",
		For:  "that session's transaction to end",
		Then: "it goes on, and one of the two may lose"},
	WaitReadBack: {Name: "read_back", MostMs: 30_000,
		Who:  "a COMMIT with values of which it is not known whether others can store them",
		For:  "this member to read them in",
		Then: "40001"},
	WaitDryRun: {Name: "dry_run", MostMs: 5000,
		Who:  "a COMMIT with definitions",
		For:  "another member to try it out",
		Then: "it goes on"},
	WaitDefiner: {Name: "definer", MostMs: 60_000,
		Who:  "a definition, a COMMIT with definitions, or VACUUM and its like once it was in the way",
		For:  "other sessions of this member that define something, and what is ordered to be applied",
		Then: "it goes on, and one of them may lose"},
	WaitBlocks: {Name: "open_blocks", MostMs: 10_000,
		Who: "a definition to which all lose that are open, a block that is about to write, " +
			"VACUUM and its like once it was in the way, or a definition beside that",
		For:  "blocks of this member that write and go on, or such a definition, or VACUUM, to have run",
		Then: "it goes on, and the blocks may lose"},
	WaitRowLocks: {Name: "row_locks", MostMs: 1000,
		Who:  "a statement that locks rows, or tables",
		For:  "commits of this member that add to rows of them",
		Then: "it is run"},
	WaitBlind: {Name: "blind_write", MostMs: 100,
		Who:  "an UPDATE or DELETE that is carried out without its row being read",
		For:  "sessions here that write to its table otherwise",
		Then: "it is run at the session's own server"},
	WaitOrder: {Name: "order", Setting: byCommitTimeout,
		Who:  "a COMMIT",
		For:  "its place in the order, and so for a majority of the members",
		Then: "57P03, or 40003 if it was proposed"},
	WaitDefinition: {Name: "definition", Setting: byCommitTimeout,
		Who:  "a definition",
		For:  "its place in the order, and then until it has run here",
		Then: "57P03, or 40003 if it was proposed; once it runs there is no bound"},
	WaitApplied: {Name: "applied",
		Who: "a COMMIT whose own server has failed it, or that has defined something",
		For: "the node to apply its rows"},
	WaitSlowed: {Name: "slowed", Setting: "flow_delay_max_ms",
		Who:  "a COMMIT, before it is answered",
		For:  "members that apply more slowly than the cluster writes",
		Then: "it is answered"},
	WaitListen: {Name: "listen", MostMs: 10_000,
		Who:  "a LISTEN",
		For:  "all members to know of it",
		Then: "it is answered, with a warning"},
	WaitSums: {Name: "checksums", MostMs: 300_000,
		Who:  "SHOW tutti.checksums",
		For:  "the members' sums",
		Then: "members that have not answered are missing"},
	WaitSlot: {Name: "slot",
		Who: "what a session leaves that has ended with 40003",
		For: "the log to decide on its transaction"},
	WaitSnapshots: {Name: "snapshots",
		Who: "the executor, before a group",
		For: "the snapshots that are being taken"},
	WaitCommits: {Name: "commits",
		Who: "the executor, behind a group",
		For: "its sessions' own commits at the server"},
	WaitDeltas: {Name: "deltas",
		Who: "the executor, before it applies what others have added to rows",
		For: "commits of this member that add to rows"},
	WaitGather: {Name: "gather", MostMs: 3,
		Who:  "proposals at the leader",
		For:  "more to share a write of the log with",
		Then: "they are written"},
	WaitKept: {Name: "kept", MostMs: 4,
		Who:  "transactions of others at a member that only applies",
		For:  "more to share a transaction of the server with",
		Then: "they are applied"},
	WaitRest: {Name: "rest", MostMs: 250, Setting: "shares_machine",
		Who:  "the executor of a member that catches up",
		For:  "others on the machine to have the processor",
		Then: "it goes on"},
	WaitDrain: {Name: "drain", Setting: "drain_timeout",
		Who:  "a node that stops",
		For:  "its clients' transactions to end",
		Then: "their sessions are ended"},
}

// Names lists the waits by name.
func (Wait) Names() []string { return waitNames }

var waitNames = func() (names []string) {
	for _, w := range Waits {
		names = append(names, w.Name)
	}
	return names
}()

func (w Wait) String() string { return Waits[w].Name }
