package session

import (
	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/wire"
)

// Statements every backend has prepared for the session's own use. They are named, and run
// with the extended protocol, because a simple Query would destroy the client's unnamed
// statement; see sendCommit.
const (
	ownBegin    = "tutti begin" // at the level that is the backend's default, the usual one
	ownBeginRC  = "tutti begin read committed"
	ownBeginAs  = "tutti begin as"
	ownTx       = "tutti tx"
	ownTxDirect = "tutti tx direct"
	ownTxBulk   = "tutti tx bulk"
	ownCommit   = "tutti commit" // there only while it runs, see sendCommit
	ownRollback = "tutti rollback"
	ownSnapshot = "tutti snapshot"
	ownPrompt   = "tutti prompt" // waits for no safe snapshot
	ownFail     = "tutti fail"
	ownQuery    = "tutti query"

	// ownPrefix begins the names above and the collector's; clients may not use it.
	ownPrefix = semantics.ReservedPrefix
)

// appendPrepare makes the backend know the statements above and the collector's.
func (s *Session) appendPrepare() {
	dst := s.srvW.AvailableBuffer()
	for _, p := range [...][2]string{
		{ownBegin, "BEGIN"},
		{ownBeginRC, "BEGIN ISOLATION LEVEL READ COMMITTED"},
		{ownTx, "SET LOCAL tutti.tx = 'on'"},
		{ownTxDirect, "SET LOCAL tutti.tx = 'quiet_direct'"},
		{ownTxBulk, "SET LOCAL tutti.tx = 'quiet_bulk'"},
		{ownReadOnly, "SET transaction_read_only = on"},
		{ownRollback, "ROLLBACK"},
		{ownSnapshot, "SELECT pg_catalog.current_setting('default_transaction_isolation')"},
		{ownPrompt, "SET TRANSACTION NOT DEFERRABLE"},
		{ownFail, "DO $$ BEGIN RAISE EXCEPTION 'refused by Tutti'; END $$"},
	} {
		name := s.own(p[0])
		dst = wire.AppendParse(wire.AppendClose(dst, 'S', name), name, p[1], nil)
	}
	s.srvW.Append(wire.AppendSync(s.o.Collector.AppendPrepare(dst)))
}

func appendRun(dst []byte, name string) []byte {
	return wire.AppendExecute(wire.AppendBind(dst, "", name, nil, nil, nil), "", 0)
}

// own is the name that the backend knows one of the statements above by: nobody can guess it (capture).
func (s *Session) own(name string) string { return name + s.o.Collector.Secret() }

// sendOwn appends one of the statements above.
func (s *Session) sendOwn(name string) {
	s.srvW.Append(wire.AppendSync(appendRun(s.srvW.AvailableBuffer(), s.own(name))))
}

// sendCommit appends the COMMIT, behind so many statements, a mark and what is added, that go ahead of it in the same go. For a client with an unnamed statement it is prepared for that
// moment alone: a function could run it with EXECUTE, and commit what nobody has ordered.
func (s *Session) sendCommit(ahead int) {
	if s.statements[""] == nil && s.prefix == 0 {
		s.srvW.Append(wire.AppendQuery(s.srvW.AvailableBuffer(), "COMMIT"))
		s.skippable = ahead
		return
	}
	name := s.own(ownCommit)
	dst := wire.AppendClose(s.srvW.AvailableBuffer(), 'S', name)
	dst = wire.AppendParse(dst, name, "COMMIT", nil)
	dst = wire.AppendClose(appendRun(dst, name), 'S', name)
	s.srvW.Append(wire.AppendSync(dst))
}

// beginStatements is how many statements sendBegin appends.
const beginStatements = 2

// sendBegin appends the BEGIN of a transaction with the given modes. It is sent with what
// follows, without a Sync of its own; see prefixed.
func (s *Session) sendBegin(m semantics.Modes) {
	dst := s.srvW.AvailableBuffer()
	switch {
	case m == semantics.Modes{}:
		dst = appendRun(dst, s.own(ownBegin))
	case m == semantics.Modes{Isolation: semantics.ReadCommitted}:
		dst = appendRun(dst, s.own(ownBeginRC))
	default:
		name := s.own(ownBeginAs)
		dst = wire.AppendClose(dst, 'S', name)
		dst = wire.AppendParse(dst, name, "BEGIN"+m.SQL(), nil)
		dst = appendRun(dst, name)
	}
	s.srvW.Append(appendRun(dst, s.own(s.direct.setting())))
}
