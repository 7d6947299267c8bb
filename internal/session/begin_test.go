package session_test

import (
	"strings"
	"testing"

	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
)

// scripted is a backend that refuses our BEGIN, and what we ask about channels, as often as it is told to.
type scripted struct {
	refuse int  // with a cancel, the next so many times
	late   int  // the same of what we ask
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
	canceled := wire.AppendErrorResponse(nil, wire.Errorf(wire.CodeQueryCanceled,
		"canceling statement due to user request").ErrorFields)
	if strings.Contains(sql, "pg_listening_channels") {
		if b.late > 0 {
			b.late--
			b.skips = true
			return canceled
		}
		return wire.AppendCommandComplete(nil, "SELECT 0")
	}
	switch sql {
	case "SHOW standard_conforming_strings":
		return wire.AppendCommandComplete(wire.AppendTextRow(nil, "on"), "SHOW")
	case "SHOW default_transaction_isolation":
		return wire.AppendCommandComplete(wire.AppendTextRow(nil, "read committed"), "SHOW")
	case "BEGIN":
		if b.refuse > 0 {
			b.refuse--
			b.skips = true
			return canceled
		}
		b.status = wire.TxActive
		return wire.AppendCommandComplete(nil, "BEGIN")
	case "ROLLBACK", "COMMIT":
		b.status = wire.TxIdle
	}
	return wire.AppendCommandComplete(nil, sql)
}

// live begins a session at this backend.
func (b *scripted) live(t *testing.T) *live {
	near, far := socketPair(t)
	front, back := socketPair(t)
	go b.serve(wire.NewReader(back, wire.FrontendLimits()), wire.NewWriter(back))
	x := session.New(session.Options{Strict: true,
		Client: wire.NewReader(far, wire.FrontendLimits()), ClientOut: wire.NewWriter(far),
		Server: wire.NewReader(front, wire.BackendLimits()), ServerOut: wire.NewWriter(front),
		Host: (&fakeHost{client: far}).roles(), Collector: unchanging{}.roles(),
	})
	done := make(chan error, 1)
	go func() { done <- x.Run() }()
	t.Cleanup(func() {
		_, _, _ = near.Close(), back.Close(), <-done
	})
	l := &live{client: newClient(near), t: t}
	l.until(wire.TypeReadyForQuery)
	return l
}

// TestCancelOfOurBegin: a cancel that was meant for a statement hits the BEGIN that went ahead
// of it. The statement fails, the block with it, and the session goes on.
func TestCancelOfOurBegin(t *testing.T) {
	b := &scripted{refuse: 2, status: wire.TxIdle}
	l := b.live(t)
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

// TestLateCancelHitsOwnQuery: a cancel that came too late for a statement hits what we ask behind it. That is asked
// again, unless it goes on.
func TestLateCancelHitsOwnQuery(t *testing.T) {
	b := &scripted{late: 2, status: wire.TxIdle}
	l := b.live(t)
	l.want("Q LISTEN a", "CommandComplete LISTEN a\nReadyForQuery I")
	l.want("P |LISTEN b\nB |\nE |0\nS", "ReadyForQuery I")
	if b.late != 0 {
		t.Error("the backend was not asked as often as expected")
	}
}
