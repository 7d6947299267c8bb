package session

import (
	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/wire"
)

// Statements every backend has prepared for the session's own use. They are named, and run
// with the extended protocol, because a simple Query would destroy the client's unnamed
// statement; see sendCommit.
const (
	ownBegin    = "tutti begin" // READ COMMITTED, the usual one
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
	for _, p := range [][2]string{
		{ownBegin, "BEGIN ISOLATION LEVEL READ COMMITTED"},
		{ownTx, "SET LOCAL tutti.tx = 'on'"},
		{ownTxDirect, "SET LOCAL tutti.tx = 'quiet_direct'"},
		{ownTxBulk, "SET LOCAL tutti.tx = 'quiet_bulk'"},
		{ownRollback, "ROLLBACK"},
		{ownSnapshot, "SELECT 1"},
		{ownPrompt, "SET TRANSACTION NOT DEFERRABLE"},
		{ownFail, "DO $$ BEGIN RAISE EXCEPTION 'refused by Tutti'; END $$"},
	} {
		dst = wire.AppendClose(dst, 'S', p[0])
		dst = wire.AppendParse(dst, p[0], p[1], nil)
	}
	s.srvW.Append(wire.AppendSync(s.o.Collector.AppendPrepare(dst)))
}

func appendRun(dst []byte, name string) []byte {
	return wire.AppendExecute(wire.AppendBind(dst, "", name, nil, nil, nil), "", 0)
}

// sendOwn appends one of the statements above.
func (s *Session) sendOwn(name string) {
	s.srvW.Append(wire.AppendSync(appendRun(s.srvW.AvailableBuffer(), name)))
}

// sendCommit appends the COMMIT, behind so many statements, a mark and what is added, that go ahead of it in the same go. For a client with an unnamed statement it is prepared for that
// moment alone: a function could run it with EXECUTE, and commit what nobody has ordered.
func (s *Session) sendCommit(ahead int) {
	if s.statements[""] == nil && s.prefix == 0 {
		s.srvW.Append(wire.AppendQuery(s.srvW.AvailableBuffer(), "COMMIT"))
		s.skippable = ahead
		return
	}
	dst := wire.AppendClose(s.srvW.AvailableBuffer(), 'S', ownCommit)
	dst = wire.AppendParse(dst, ownCommit, "COMMIT", nil)
	dst = wire.AppendClose(appendRun(dst, ownCommit), 'S', ownCommit)
	s.srvW.Append(wire.AppendSync(dst))
}

// beginStatements is how many statements sendBegin appends.
const beginStatements = 2

// sendBegin appends the BEGIN of a transaction with the given modes. It is sent with what
// follows, without a Sync of its own; see prefixed.
func (s *Session) sendBegin(m semantics.Modes) {
	dst := s.srvW.AvailableBuffer()
	if m == (semantics.Modes{Isolation: semantics.ReadCommitted}) {
		dst = appendRun(dst, ownBegin)
	} else {
		dst = wire.AppendClose(dst, 'S', ownBeginAs)
		dst = wire.AppendParse(dst, ownBeginAs, "BEGIN"+m.SQL(), nil)
		dst = appendRun(dst, ownBeginAs)
	}
	s.srvW.Append(appendRun(dst, s.direct.setting()))
}
