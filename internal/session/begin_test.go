package session_test

import (
	"testing"

	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
)

// scripted is a backend that refuses our BEGIN as often as it is told to.
type scripted struct {
	refuse int  // with a cancel, the next so many times
	skips  bool // until the Sync
	status byte
}

// serve answers what comes, as PostgreSQL would.
func (b *scripted) serve(r *wire.Reader, w *wire.Writer) {
	text := map[string]string{}
	bound := ""
	for {
		f, err := r.Next()
		if err != nil {
			return
		}
		var out []byte
		switch {
		case f.Type == wire.TypeSync:
			b.skips = false
			out = wire.AppendReadyForQuery(nil, b.status)
		case b.skips:
		case f.Type == wire.TypeParse:
			p, _ := wire.DecodeParse(f.Body())
			text[p.Name] = p.SQL
			out = wire.AppendParseComplete(nil)
		case f.Type == wire.TypeBind:
			m, _ := wire.DecodeBind(f.Body())
			bound = text[m.Statement]
			out = wire.AppendBindComplete(nil)
		case f.Type == wire.TypeExecute:
			out = b.execute(bound)
		case f.Type == wire.TypeQuery:
			sql, _ := wire.DecodeQuery(f.Body())
			out = wire.AppendReadyForQuery(b.execute(sql), b.status)
		}
		w.Append(out)
		if w.Flush() != nil {
			return
		}
	}
}

func (b *scripted) execute(sql string) []byte {
	switch sql {
	case "SHOW standard_conforming_strings":
		return wire.AppendCommandComplete(wire.AppendTextRow(nil, "on"), "SHOW")
	case "SHOW default_transaction_isolation":
		return wire.AppendCommandComplete(wire.AppendTextRow(nil, "read committed"), "SHOW")
	case "BEGIN ISOLATION LEVEL READ COMMITTED":
		if b.refuse > 0 {
			b.refuse--
			b.skips = true
			return wire.AppendErrorResponse(nil, wire.Errorf(wire.CodeQueryCanceled, "canceling statement due to user request").ErrorFields)
		}
		b.status = wire.TxActive
		return wire.AppendCommandComplete(nil, "BEGIN")
	case "ROLLBACK", "COMMIT":
		b.status = wire.TxIdle
	}
	return wire.AppendCommandComplete(nil, sql)
}

// TestCancelOfOurBegin: a cancel that was meant for a statement hits the BEGIN that went ahead
// of it. The statement fails, the block with it, and the session goes on.
func TestCancelOfOurBegin(t *testing.T) {
	near, far := socketPair(t)
	front, back := socketPair(t)
	b := &scripted{refuse: 2, status: wire.TxIdle}
	go b.serve(wire.NewReader(back, wire.FrontendLimits()), wire.NewWriter(back))
	x := session.New(session.Options{
		Client: wire.NewReader(far, wire.FrontendLimits()), ClientOut: wire.NewWriter(far),
		Server: wire.NewReader(front, wire.BackendLimits()), ServerOut: wire.NewWriter(front),
		Host: &fakeHost{client: far}, Collector: unchanging{},
	})
	done := make(chan error, 1)
	go func() { done <- x.Run() }()
	defer func() {
		_, _, _ = near.Close(), back.Close(), <-done
	}()
	l := &live{client: newClient(near), t: t}
	l.until(wire.TypeReadyForQuery)
	canceled := "ERROR 57014 canceling statement due to user request\nReadyForQuery E"
	l.want("Q BEGIN", "CommandComplete BEGIN\nReadyForQuery T")
	l.want("Q UPDATE t SET v = 1", canceled)
	l.want("Q ROLLBACK", "CommandComplete ROLLBACK\nReadyForQuery I")
	l.want("Q BEGIN", "CommandComplete BEGIN\nReadyForQuery T")
	l.want("P |UPDATE t SET v = 2\nB |\nE |0\nS", canceled)
	l.want("Q COMMIT", "CommandComplete ROLLBACK\nReadyForQuery I")
	l.want("Q BEGIN", "CommandComplete BEGIN\nReadyForQuery T")
	l.want("Q INSERT INTO t VALUES (3)", "CommandComplete INSERT INTO t VALUES (3)\nReadyForQuery T")
	if b.refuse != 0 {
		t.Error("the backend was not asked to begin as often as expected")
	}
}
