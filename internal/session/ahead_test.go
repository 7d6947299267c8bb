package session_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tuttidb/tutti/internal/session"
)

// habitual is a live session that has committed after each of the given statements once.
func habitual(t *testing.T, statements ...string) *live {
	l := empty(t)
	for i, sql := range statements {
		l.do("Q BEGIN")
		l.want("Q "+sql, "ReadyForQuery T")
		l.want("Q COMMIT", "CommandComplete COMMIT")
		if seq := l.seq(); seq != uint64(i+1) {
			t.Fatalf("%d collect steps for %d transactions", seq, i+1)
		}
	}
	return l
}

// empty is a live session before an empty table t.
func empty(t *testing.T) *live {
	l := newStage(t, true).live(t)
	l.want("Q DELETE FROM t", "DELETE")
	l.host.mu.Lock()
	defer l.host.mu.Unlock()
	l.host.seq = 0
	return l
}

// seq is how many collect steps were begun.
func (l *live) seq() uint64 {
	l.host.mu.Lock()
	defer l.host.mu.Unlock()
	return l.host.seq
}

// rows makes the host note what each submission writes.
func (l *live) rows() *[]string {
	var got []string
	l.host.onSubmit = func(s session.Submission) *session.Decision {
		var ops []string
		for _, r := range s.Writeset.Rows {
			ops = append(ops, fmt.Sprint(r.Op))
		}
		got = append(got, strings.Join(ops, " "))
		return nil
	}
	return &got
}

func TestCollectAhead(t *testing.T) {
	const put = "INSERT INTO t SELECT coalesce(max(id), 0) + 1, 'x' FROM t"
	l := habitual(t, put)
	got := l.rows()

	l.do("Q BEGIN\nQ " + put)
	if l.seq() != 2 {
		t.Fatal("a statement after which a COMMIT came was not collected with")
	}
	l.want("Q COMMIT", "CommandComplete COMMIT")
	if l.seq() != 2 || fmt.Sprint(*got) != "[1]" {
		t.Errorf("after %d collect steps, rows %v were submitted", l.seq(), *got)
	}
	l.want("Q SELECT count(*) FROM t", "DataRow 2")

	// Another statement comes instead.
	*got = nil
	l.do("Q BEGIN\nQ " + put)
	l.want("Q "+put, "INSERT 0 1")
	l.want("Q UPDATE t SET v = 'y' WHERE id = 1", "UPDATE 1")
	l.want("Q COMMIT", "CommandComplete COMMIT")
	if len(*got) != 1 || len(strings.Fields((*got)[0])) != 3 {
		t.Errorf("three rows were written, %v submitted", *got)
	}
	l.want("Q SELECT count(*), max(v) FROM t", "DataRow 4|y")

	// It does not come again at once, and is learnt again.
	before := l.seq()
	l.do("Q BEGIN\nQ " + put)
	if l.seq() != before {
		t.Error("a COMMIT was expected where none came the last time")
	}
	l.do("Q COMMIT\nQ BEGIN\nQ " + put)
	if l.seq() != before+2 {
		t.Error("a COMMIT was not expected where one came the last time")
	}

	// Rollbacks, whole and to a savepoint.
	l.want("Q ROLLBACK", "CommandComplete ROLLBACK")
	l.want("Q SELECT count(*) FROM t", "DataRow 5")
	*got = nil
	l.do("Q BEGIN\nQ " + put)
	l.want("Q SAVEPOINT a", "SAVEPOINT")
	l.want("Q DELETE FROM t", "DELETE 6")
	l.want("Q ROLLBACK TO a", "ROLLBACK")
	l.want("Q UPDATE t SET v = 'z' WHERE id = 2", "UPDATE 1")
	l.want("Q COMMIT", "CommandComplete COMMIT")
	if len(*got) != 1 || len(strings.Fields((*got)[0])) != 2 {
		t.Errorf("two rows were written, %v submitted", *got)
	}
	l.want("Q SELECT count(*), string_agg(v, '' ORDER BY id) FROM t", "DataRow 6|yzxxxx")
	if l.host.orphans > 0 {
		t.Errorf("%d transactions could not commit here", l.host.orphans)
	}
}

// TestCollectedAheadThenFailed: what was collected ahead of a COMMIT does not outlive a failure of something that does
// not open the transaction again first, because ROLLBACK TO SAVEPOINT undoes a part of it.
func TestCollectedAheadThenFailed(t *testing.T) {
	t.Run("refused", func(t *testing.T) { collectedThenFailed(t, "Q SHOW tutti.nothing", "ERROR 42704") })
	t.Run("unprepared", func(t *testing.T) { collectedThenFailed(t, "P a|SELECT nothing FROM t\nS", "ERROR 42703") })
}

func collectedThenFailed(t *testing.T, fails, with string) {
	const put = "INSERT INTO t SELECT coalesce(max(id), 0) + 1, 'x' FROM t"
	l := empty(t)
	l.do("Q BEGIN\nQ " + put + "\nQ SAVEPOINT a\nQ " + put + "\nQ COMMIT")
	got := l.rows()
	before := l.seq()
	l.do("Q BEGIN\nQ " + put + "\nQ SAVEPOINT a\nQ " + put)
	if l.seq() != before+1 {
		t.Fatal("a statement after which a COMMIT came was not collected with")
	}
	l.want(fails, with)
	l.want("Q ROLLBACK TO a", "ROLLBACK")
	l.want("Q COMMIT", "CommandComplete COMMIT")
	if len(*got) != 1 || len(strings.Fields((*got)[0])) != 1 {
		t.Errorf("one row was written, %v submitted", *got)
	}
	l.want("Q SELECT count(*) FROM t", "DataRow 3")
}

// TestNoCollectAheadOfLocks: the last statement of a session that holds up others by LOCK TABLE stays to be seen.
func TestNoCollectAheadOfLocks(t *testing.T) {
	const look = "SELECT count(*) FROM t"
	l := habitual(t, look)
	l.do("Q BEGIN\nQ LOCK TABLE t IN SHARE MODE\nQ " + look + "\nQ COMMIT")
	before := l.seq()
	l.do("Q BEGIN\nQ LOCK TABLE t IN SHARE MODE\nQ " + look)
	if l.seq() != before {
		t.Error("after LOCK TABLE a collect step was sent ahead of a COMMIT")
	}
	l.want("Q COMMIT", "CommandComplete COMMIT")
}

// TestCollectAheadExtended: the same with prepared statements, as drivers send them.
func TestCollectAheadExtended(t *testing.T) {
	l := empty(t)
	got := l.rows()
	l.do("P put|INSERT INTO t VALUES ($1, $2)|23,25\nS\nP b|BEGIN\nS\nP c|COMMIT\nS")
	for i := range 4 {
		l.do("B |b\nE |0\nS")
		l.want(fmt.Sprintf("B |put|%d|x\nE |0\nS", i), "INSERT 0 1")
		if i == 2 { // prepares something in between
			l.want("P more|SELECT 1\nD S more\nS", "ParseComplete")
		}
		l.want("B |c\nE |0\nS", "COMMIT")
	}
	if fmt.Sprint(*got) != "[1 1 1 1]" || l.seq() != 4 {
		t.Errorf("after %d collect steps, rows %v were submitted", l.seq(), *got)
	}
	// With the COMMIT in one batch nothing is gained, but it must work.
	l.want("B |b\nE |0\nB |put|10|x\nE |0\nB |c\nE |0\nS", "COMMIT\nReadyForQuery I")
	l.want("Q SELECT count(*) FROM t", "DataRow 5")
}

// TestCollectAheadFindsNothing: an answer without rows is no reason to believe that nothing was
// written, nor may it end the writing.
func TestCollectAheadFindsNothing(t *testing.T) {
	const none = "UPDATE t SET v = 'n' WHERE id = -1"
	l := habitual(t, none)
	got := l.rows()
	l.do("Q BEGIN\nQ " + none)
	l.want("Q INSERT INTO t VALUES (1, 'x')", "INSERT 0 1")
	l.want("Q COMMIT", "CommandComplete COMMIT")
	if fmt.Sprint(*got) != "[1]" {
		t.Errorf("one row was written, %v submitted", *got)
	}
}

// TestCollectAheadAndTheDeferred: what may fire at COMMIT is not overtaken.
func TestCollectAheadAndTheDeferred(t *testing.T) {
	const fix = "INSERT INTO t SELECT coalesce(max(id), 0) + 1, 'x' FROM t"
	l := habitual(t, fix)
	l.host.deferrable = true
	before := l.seq()
	l.do("Q BEGIN\nQ " + fix)
	if l.seq() != before {
		t.Error("collected ahead although something may be deferred")
	}
	l.want("Q COMMIT", "CommandComplete COMMIT")
	l.host.deferrable = false

	// A session's own temporary objects are found out by the statement itself.
	l.do("Q CREATE TEMP TABLE tt (id int, n int UNIQUE DEFERRABLE INITIALLY DEFERRED)")
	got := l.rows()
	l.do("Q BEGIN\nQ INSERT INTO tt VALUES (5, 5)\nQ " + fix)
	l.want("Q COMMIT", "CommandComplete COMMIT")
	*got = nil
	l.do("Q BEGIN")
	l.want("Q INSERT INTO tt VALUES (1, 1), (2, 1)", "INSERT 0 2")
	l.want("Q "+fix, "INSERT 0 1")
	l.want("Q COMMIT", "ERROR 23505")
	l.want("Q SELECT count(*) FROM t", "DataRow 3")
	if len(*got) != 0 {
		t.Errorf("%v were submitted of a transaction that failed at COMMIT", *got)
	}
}

// TestCollectAheadAndDoom: the transaction is lost while the client thinks about its COMMIT.
func TestCollectAheadAndDoom(t *testing.T) {
	const put = "INSERT INTO t SELECT coalesce(max(id), 0) + 1, 'x' FROM t"
	l := habitual(t, put)
	for _, next := range []string{"Q COMMIT", "Q " + put} {
		l.do("Q BEGIN ISOLATION LEVEL REPEATABLE READ\nQ " + put)
		l.host.kill(lost())
		l.want(next, "ERROR 40001 doomed for the test")
		l.want("Q ROLLBACK", "CommandComplete ROLLBACK")
	}
	l.want("Q SELECT count(*) FROM t", "DataRow 1")
}

// TestCollectAheadForgotten: a function removes the session's statements after the collect step
// was done ahead.
func TestCollectAheadForgotten(t *testing.T) {
	const put = "INSERT INTO t SELECT coalesce(max(id), 0) + 1, 'x' FROM t"
	l := habitual(t, put)
	l.do("Q BEGIN\nQ " + put)
	l.do("Q SELECT forget()")
	l.want("Q COMMIT", "40001")
	l.do("Q ROLLBACK\nQ BEGIN\nQ " + put)
	l.want("Q COMMIT", "CommandComplete COMMIT")
	l.want("Q SELECT count(*) FROM t", "DataRow 2")
}

// TestCollectAheadFailedStatement: the statement itself fails.
func TestCollectAheadFailedStatement(t *testing.T) {
	const put = "INSERT INTO t VALUES (1, 'x')"
	l := habitual(t, put)
	l.do("Q BEGIN")
	l.want("Q "+put, "ERROR 23505")
	l.want("Q SELECT 1", "ERROR 25P02")
	l.want("Q COMMIT", "CommandComplete ROLLBACK")
	l.want("Q SELECT count(*) FROM t", "DataRow 1")
}

// TestCollectAheadOfReaders: a block that only reads has its collect step ahead, too, and a
// function that writes is not overlooked.
func TestCollectAheadOfReaders(t *testing.T) {
	const read = "SELECT count(*) FROM t"
	l := habitual(t, read)
	got := l.rows()
	l.do("Q BEGIN")
	l.want("Q "+read, "DataRow 0")
	l.want("Q COMMIT", "CommandComplete COMMIT")
	if l.seq() != 2 || len(*got) != 0 {
		t.Errorf("after %d collect steps, rows %v were submitted", l.seq(), *got)
	}
	const hidden = "SELECT put(coalesce(max(id), 0) + 1, 'h') FROM t"
	for i := range 3 {
		l.do("Q BEGIN")
		l.want("Q "+hidden, fmt.Sprintf("DataRow %d", i+1))
		l.want("Q COMMIT", "CommandComplete COMMIT")
	}
	if fmt.Sprint(*got) != "[1 1 1]" {
		t.Errorf("three rows were written, %v submitted", *got)
	}
}

// TestAheadTakesNoSnapshot: a transaction with one snapshot takes it between two groups, when it first looks at
// data, also where a COMMIT was to be expected before.
func TestAheadTakesNoSnapshot(t *testing.T) {
	s := newStage(t, true)
	l := s.live(t)
	const begin = "Q BEGIN ISOLATION LEVEL REPEATABLE READ\nQ SET work_mem = '1MB'"
	l.do(begin + "\nQ COMMIT\n" + begin)
	if n := l.seq(); n != 1 {
		t.Errorf("%d collect steps for one COMMIT", n)
	}
	s.exec(t, "SET backtrace_functions = 'tutti_applies'; SET session_replication_role = replica; DELETE FROM t; "+
		"RESET session_replication_role")
	l.want("Q SELECT count(*) FROM t", "DataRow 0")
	if l.host.snapshots != 1 {
		t.Errorf("the gate was passed %d times, want once", l.host.snapshots)
	}
}
