package session_test

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/wire"
)

// canceller stands between a session and its backend. One statement of the session's own fails as if a cancel had hit
// it that was meant for a statement of the client's.
type canceller struct {
	mu   sync.Mutex
	at   int // how many statements of our own go before it; below zero: never
	hit  string
	seen int
}

const lateCancel = "DO $$ BEGIN RAISE EXCEPTION 'canceling statement due to user request' USING ERRCODE = " +
	"'query_canceled'; END $$"

// arm begins anew to count.
func (c *canceller) arm(at int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at, c.hit, c.seen = at, "", 0
}

// struck is what was hit.
func (c *canceller) struck() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.hit
}

// pass gives what the backend gets instead of a frame.
func (c *canceller) pass(f wire.Frame) []byte {
	own := ""
	switch f.Type {
	case wire.TypeBind:
		if b, err := wire.DecodeBind(f.Body()); err == nil && strings.HasPrefix(b.Statement, "tutti ") {
			own = b.Statement
		}
	case wire.TypeQuery:
		if q, err := wire.DecodeQuery(f.Body()); err == nil && q == "COMMIT" {
			own = "tutti commit"
		}
	}
	if own == "" {
		return f.Raw
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen++; c.at < 0 || c.seen != c.at+1 {
		return f.Raw
	}
	c.hit = own
	if f.Type == wire.TypeQuery {
		return wire.AppendQuery(nil, lateCancel)
	}
	out := wire.AppendParse(nil, "", lateCancel, nil)
	return wire.AppendExecute(wire.AppendBind(out, "", "", nil, nil, nil), "", 0)
}

// live is a session behind it.
func (c *canceller) live(t *testing.T, s *stage) *live {
	s.reset(t)
	conn, _ := s.backend(t)
	near, far := socketPair(t)
	go func() { _, _ = io.Copy(far, conn); _ = far.Close() }()
	go func() {
		in := wire.NewReader(far, wire.FrontendLimits())
		for {
			f, err := in.Next()
			if err != nil {
				break
			}
			if _, err := conn.Write(c.pass(f)); err != nil {
				break
			}
		}
		_ = conn.Close()
	}()
	return s.liveWith(t, near, wire.NewReader(near, wire.BackendLimits()))
}

// TestLateCancels: a cancel that comes too late for the client's statement hits any statement of the session's own. The
// session goes on, says what became of the transaction, and does nothing twice.
func TestLateCancels(t *testing.T) {
	s := newStage(t, true)
	s.exec(t, "SET backtrace_functions = 'tutti_on'; GRANT EXECUTE ON FUNCTION pg_catalog.tutti_prepared_statement "+
		"TO app; CREATE SEQUENCE late_cancels; GRANT ALL ON late_cancels TO app; GRANT CREATE ON SCHEMA public TO "+
		"app; CREATE PROCEDURE late_cancels_steps() LANGUAGE plpgsql AS $$ BEGIN INSERT INTO t VALUES (70, 'x'); "+
		"COMMIT; UPDATE t SET v = 'y' WHERE id = 70; COMMIT; END $$; RESET backtrace_functions")
	for _, script := range []string{
		"Q INSERT INTO t VALUES (70, 'x')",
		"P |INSERT INTO t VALUES (70, 'x')\nB |\nE |0\nS",
		"Q BEGIN\nQ INSERT INTO t VALUES (70, 'x')\nQ COMMIT",
		"Q BEGIN\nQ SELECT setval('late_cancels', 5)\nQ INSERT INTO t VALUES (70, 'x')\nQ COMMIT",
		"Q INSERT INTO t VALUES (70, 'x'); SELECT setval('late_cancels', 5)",
		"Q BEGIN ISOLATION LEVEL REPEATABLE READ\nQ SELECT count(*) FROM t\nQ INSERT INTO t VALUES (70, 'x')\nQ COMMIT",
		"Q BEGIN ISOLATION LEVEL SERIALIZABLE\nQ SET LOCAL work_mem = 1000\nQ SELECT count(*) FROM t\nQ INSERT INTO " +
			"t VALUES (70, 'x')\nQ COMMIT",
		"Q BEGIN ISOLATION LEVEL SERIALIZABLE READ WRITE DEFERRABLE\nQ INSERT INTO t VALUES (70, 'x')\nQ COMMIT",
		"Q BEGIN\nQ CREATE TABLE late_cancels_made (id int)\nQ INSERT INTO t VALUES (70, 'x')\nQ DROP TABLE " +
			"late_cancels_made\nQ COMMIT",
		"Q BEGIN\nQ SELECT * FROM t FOR UPDATE\nQ LOCK TABLE u\nQ INSERT INTO t VALUES (70, 'x')\nQ COMMIT",
		"Q BEGIN\nsilence\nQ INSERT INTO t VALUES (70, 'x')\nQ COMMIT",
		"Q BEGIN ISOLATION LEVEL REPEATABLE READ\nsilence\nP |INSERT INTO t VALUES (70, 'x')\npause 20\nB |\nE " +
			"|0\nS\nQ COMMIT",
		"Q BEGIN\nQ INSERT INTO t VALUES (70, 'x')\nQ SAVEPOINT a\nQ INSERT INTO t VALUES (70, 'x')\nQ ROLLBACK TO " +
			"a\nQ DEALLOCATE ALL\nQ COMMIT",
		"Q LISTEN a\nQ BEGIN\nQ INSERT INTO t VALUES (70, 'x')\nQ COMMIT",
		"P a|INSERT INTO t VALUES (70, $1)\nB |a|x\nE |0\nP |SELECT 1\nB |\nE |0\nS",
		"P a|UPDATE t SET v = $1 WHERE id = 1\nB |a|x\nE |0\nS\nB |a|y\nE |0\nS\nB |a|z\nE |0\nS\nQ INSERT INTO t " +
			"VALUES (70, 'x')",
		"Q CALL late_cancels_steps()",
		"Q BEGIN\nQ INSERT INTO t VALUES (70, 'x')\nQ COMMIT AND CHAIN\nQ SELECT 1\nQ COMMIT",
		"Q DISCARD ALL\nQ INSERT INTO t VALUES (70, 'x')",
	} {
		for at, more := 0, true; more && at < 100; at++ {
			t.Run("", func(t *testing.T) { more = lateCancelAt(t, s, script, at) != "" })
		}
	}
}

// lateCancelAt plays a script with one cancel, and tells what that has hit.
func lateCancelAt(t *testing.T, s *stage, script string, at int) (hit string) {
	c := &canceller{at: -1}
	l := c.live(t, s)
	c.arm(at)
	var got []string
	for _, line := range strings.Split(script, "\n") {
		if line == "silence" {
			for range 3 {
				l.host.poke()
				time.Sleep(3 * time.Millisecond)
			}
			continue
		}
		got = append(got, l.do(line))
	}
	all, last := strings.Join(got, "\n"), got[len(got)-1]
	hit = c.struck()
	c.arm(-1)
	where := fmt.Sprintf("%s\n-- with a cancel of %q, the statement %d of ours:\n%s", script, hit, at, all)
	if strings.Contains(all, "connection closed") || strings.Contains(all, "within") {
		t.Errorf("the session has ended:\n%s", where)
		return hit
	}
	l.do("Q ROLLBACK")
	committed := strings.Contains(last, "CommandComplete COMMIT") ||
		!strings.Contains(script, "COMMIT") && !strings.Contains(last, "ERROR")
	want := map[bool]string{false: "DataRow 0\n", true: "DataRow 1\n"}[committed && strings.Contains(all, "INSERT 0 1")]
	if strings.Contains(script, "CALL") || strings.Contains(script, "CHAIN") {
		want = "" // part of it may have committed
	}
	l.host.mu.Lock()
	orphans := l.host.orphans // the host is no executor
	l.host.mu.Unlock()
	if rows := l.do("Q SELECT count(*) FROM t WHERE id = 70"); !strings.Contains(rows, want) && orphans == 0 ||
		!strings.HasSuffix(rows, "ReadyForQuery I") {
		t.Errorf("then it says\n%s\nwithout %q:\n%s", rows, want, where)
	}
	// a function could run it
	l.want("Q SELECT count(*) FROM tutti_prepared_statement() WHERE name LIKE 'tutti commit%'", "DataRow 0\n")
	l.want("Q INSERT INTO t VALUES (71, 'x')", "CommandComplete INSERT 0 1\nReadyForQuery I")
	return hit
}
