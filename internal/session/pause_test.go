package session_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
)

// TestPausesTakeNoSnapshot: to look how long a client may pause in a pipeline takes no snapshot. That of a transaction
// must be taken between two groups, and the transaction's base says what it shows.
func TestPausesTakeNoSnapshot(t *testing.T) {
	s := newStage(t, true)
	for _, level := range []string{"REPEATABLE READ", "SERIALIZABLE"} {
		l := s.live(t)
		l.want("Q SET statement_timeout = '1min'\nQ BEGIN ISOLATION LEVEL "+level, "BEGIN")
		for !l.host.watched() { // it is silent, and the transaction is opened
			l.host.poke()
			time.Sleep(time.Millisecond)
		}
		l.do("P |SELECT pg_catalog.txid_snapshot_xmax(pg_catalog.txid_current_snapshot())\npause 30\nD S \npause 100")
		var next int64
		if err := s.admin.QueryRow(context.Background(),
			"SELECT pg_catalog.txid_current() + 1").Scan(&next); err != nil {
			t.Fatal(err)
		}
		l.want("B |\nE |0\nS", fmt.Sprintf("DataRow %d\n", next))
		l.want("Q ROLLBACK", "ROLLBACK")
	}
	l := s.live(t)
	for _, shown := range []string{"1500ms", "1min", "2h", "1d", "3s"} {
		l.want("Q SET statement_timeout = '"+shown+"'", "SET")
		l.want("P |SELECT 1\npause 30\nB |\nE |0\nS", "DataRow 1\n")
	}
	l.want("Q SET statement_timeout = '20ms'", "SET")
	l.want("P |SELECT 1\npause 60\nB |\nE |0\nS", "57014")
}

// TestSafeSnapshotAfterSilence: a READ ONLY DEFERRABLE transaction whose client is silent behind its BEGIN waits for
// its safe snapshot all the same.
func TestSafeSnapshotAfterSilence(t *testing.T) {
	s := newStage(t, true)
	l, writer := s.live(t), s.live(t)
	writer.want("Q BEGIN ISOLATION LEVEL SERIALIZABLE\nQ INSERT INTO t VALUES (80, 'x')", "INSERT 0 1")
	l.want("Q BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE", "BEGIN")
	for !l.host.watched() {
		l.host.poke()
		time.Sleep(time.Millisecond)
	}
	s.until(t, "SELECT count(*) = 2 FROM pg_stat_activity WHERE state = 'idle in transaction' AND datname = "+
		"current_database()")
	l.out.Append(message(t, "Q", "SELECT count(*) FROM t WHERE id = 80"))
	if err := l.out.Flush(); err != nil {
		t.Fatal(err)
	}
	s.until(t, "SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event = 'SafeSnapshot'")
	if p := l.host.waits(); p != session.PhaseRunning {
		t.Errorf("it waits in phase %v", p)
	}
	writer.want("Q COMMIT", "COMMIT")
	l.next(wire.TypeReadyForQuery)
	l.want("Q COMMIT", "COMMIT")
}
