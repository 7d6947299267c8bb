package speakers

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tuttidb/tutti/internal/capture"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
)

const backend = 42

var errGone = errors.New("gone")

// conn is a connection that answers as the local database would.
type conn struct {
	asked     []string
	fails     string // what a Query fails that has this
	busy      bool   // no lock can be had
	uncertain bool   // the transaction has not committed
	array     pgconn.Result
	closed    bool
}

func (c *conn) Query(_ context.Context, sql string) (all []*pgconn.Result, err error) {
	c.asked = append(c.asked, sql)
	if c.fails != "" && strings.Contains(sql, c.fails) {
		return nil, errGone
	}
	for statement := range strings.SplitSeq(strings.TrimSuffix(sql, ";"), ";") {
		r := &pgconn.Result{}
		got := "t"
		if c.busy {
			got = "f"
		}
		switch {
		case strings.Contains(statement, "native_try"):
			r.FieldDescriptions = []pgconn.FieldDescription{{Name: "native_try"}}
			r.Rows = [][][]byte{{[]byte(got)}}
		case strings.Contains(statement, "tutti.mark") && !c.uncertain:
			r.Rows = [][][]byte{{}}
		}
		all = append(all, r)
	}
	return all, nil
}

func (c *conn) With(context.Context, string, []byte, uint32, int16) *pgconn.Result { return &c.array }
func (c *conn) Close()                                                             { c.closed = true }

// said is the last thing that was asked.
func (c *conn) said() string { return c.asked[len(c.asked)-1] }

// begun is a conversation over a connection.
func begun(t *testing.T, p *Pool, c *conn) *Talk {
	t.Helper()
	x := New(Options{Pool: p, Backend: backend, Context: context.Background(), Done: make(chan struct{}),
		Connect: func() (Conn, error) { return c, nil }})
	if err := x.Attend("c"); err != nil {
		t.Fatal(err)
	}
	return x
}

// TestSay: with each command the next wait is begun before the last one ends, so that the transaction never runs ahead;
// nothing waits after the last command (SP2).
func TestSay(t *testing.T) {
	c := &conn{}
	x := begun(t, NewPool(), c)
	for _, s := range []struct {
		n           int
		command     string
		waits, woke int // by number; zero: none
	}{{1, "first", 2, 0}, {2, "second", 3, 2}, {3, capture.InsideGo, 0, 3}} {
		if err := x.Say(s.n, s.command); err != nil {
			t.Fatal(err)
		}
		said := c.said()
		wait, wake := strings.Index(said, "native_try"), strings.Index(said, "native_unlock")
		if !strings.Contains(said, s.command) || (wait >= 0) != (s.waits > 0) || (wake >= 0) != (s.woke > 0) ||
			s.waits > 0 && s.woke > 0 && wake < wait || x.wait != s.waits ||
			s.woke > 0 && !strings.HasSuffix(said, capture.InsideWakeSQL(backend, s.woke)) {
			t.Errorf("the command %d is said as %q, and then %d waits", s.n, said, x.wait)
		}
	}
}

// TestNotToBeWaitedFor: what could not be locked is not taken for a wait, and not unlocked.
func TestNotToBeWaitedFor(t *testing.T) {
	c := &conn{busy: true}
	x := begun(t, NewPool(), c)
	if err := x.Say(1, "first"); err != nil || x.wait != 0 {
		t.Errorf("%v, the wait %d", err, x.wait)
	}
	if x.Leave(); strings.Contains(c.said(), "native_unlock") {
		t.Errorf("what was not locked is unlocked: %q", c.said())
	}
}

// TestLeave: at its end a conversation takes back what it has said, ends the wait, and lets the procedure go on; a
// connection that cannot do so is closed (SP3), and otherwise serves the next conversation.
func TestLeave(t *testing.T) {
	p, c := NewPool(), &conn{}
	x := begun(t, p, c)
	if err := x.Say(1, "first"); err != nil {
		t.Fatal(err)
	}
	x.held = true
	x.Leave()
	for _, part := range []string{capture.HushSQL(backend), capture.InsideWakeSQL(backend, 2),
		capture.InsideFreeSQL(backend)} {
		if !strings.Contains(c.said(), part) {
			t.Errorf("at its end it says %q, without %q", c.said(), part)
		}
	}
	if c.closed || len(p.turns) != 0 || x.conn != nil || x.held || x.wait != 0 {
		t.Errorf("then it is closed %v, %d go on, and it is %+v", c.closed, len(p.turns), x)
	}
	asked := len(c.asked)
	if x.Leave(); len(c.asked) != asked {
		t.Error("it ends twice")
	}
	other := &conn{}
	if y := begun(t, p, other); y.conn != Conn(c) {
		t.Error("a connection that is free is not used again")
	} else {
		c.fails = "DELETE"
		y.Leave()
	}
	if !c.closed || p.take() != nil || len(p.turns) != 0 {
		t.Error("a connection that cannot take back what it has said is kept")
	}
}

// TestLetCommit: the next transaction is held up before the one that commits goes on (SP4).
func TestLetCommit(t *testing.T) {
	for name, c := range map[string]struct {
		conn      conn
		committed bool
		fails     bool
	}{
		"commits":             {conn{}, true, false},
		"fails at COMMIT":     {conn{uncertain: true}, false, false},
		"cannot be held up":   {conn{busy: true}, false, true},
		"is gone before":      {conn{fails: "native_try"}, false, true},
		"is gone at its word": {conn{fails: "tutti.said"}, false, true},
		"is gone afterwards":  {conn{fails: "tutti.mark"}, false, true},
	} {
		x := begun(t, NewPool(), &c.conn)
		committed, err := x.LetCommit(3, 7, 8, 9)
		if committed != c.committed || (err != nil) != c.fails {
			t.Errorf("%s: committed %v, %v", name, committed, err)
		}
		hold := c.conn.asked[0] == capture.InsideHoldSQL(backend)
		if !hold || name == "cannot be held up" && len(c.conn.asked) > 1 {
			t.Errorf("%s: it says %q", name, c.conn.asked)
		}
		if !c.fails && !x.held {
			t.Errorf("%s: the next transaction is not held up", name)
		}
	}
}

// reread is a Reread of a constant.
type reread struct{ session.Reread }

func (reread) Array() (sql string, oid uint32, format int16, value []byte) {
	return "SELECT", 1, 1, []byte{1}
}

// TestTexts: what cannot be read because its table was defined anew is an error for the client, and all else ends the
// conversation.
func TestTexts(t *testing.T) {
	c := &conn{array: pgconn.Result{Rows: [][][]byte{{[]byte("{1}"), []byte("int4[]")}}}}
	x := begun(t, NewPool(), c)
	if array, typ, err := x.Texts(reread{}); array != "{1}" || typ != "int4[]" || err != nil {
		t.Errorf("it reads %s of type %s, %v", array, typ, err)
	}
	var told *wire.SQLError
	for name, r := range map[string]pgconn.Result{"PostgreSQL refuses": {Err: &pgconn.PgError{Message: "no"}},
		"nothing comes": {}, "the connection is gone": {Err: errGone}} {
		c.array = r
		_, _, err := x.Texts(reread{})
		if is := errors.As(err, &told); err == nil || is != (name == "PostgreSQL refuses") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestFew: so many conversations go on at a time, and more wait for one to end, or for the replica's end (SP1).
func TestFew(t *testing.T) {
	p := NewPool()
	var all []*Talk
	for range Max {
		all = append(all, begun(t, p, &conn{}))
	}
	done := make(chan struct{})
	more := New(Options{Pool: p, Context: context.Background(), Done: done, Ends: func() error { return errGone },
		Connect: func() (Conn, error) { return &conn{}, nil }})
	attended := make(chan error)
	go func() { attended <- more.Attend("c") }()
	select {
	case err := <-attended:
		t.Errorf("one more goes on: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	all[0].Leave()
	if err := <-attended; err != nil {
		t.Error(err)
	}
	close(done)
	all[0].o.Done, all[0].o.Ends = done, func() error { return errGone }
	if err := all[0].Attend("c"); !errors.Is(err, errGone) || len(p.turns) != Max {
		t.Errorf("at the replica's end: %v, and %d go on", err, len(p.turns))
	}
	failing := New(Options{Pool: NewPool(), Connect: func() (Conn, error) { return nil, errGone }})
	if err := failing.Attend("c"); !errors.Is(err, errGone) || len(failing.o.Pool.turns) != 0 {
		t.Errorf("without a connection: %v, and %d go on", err, len(failing.o.Pool.turns))
	}
}

// TestSweep: what nobody has used for a while is closed, the rest is kept, and nothing is kept after the end (SP5).
func TestSweep(t *testing.T) {
	p, old, young, late := NewPool(), &conn{}, &conn{}, &conn{}
	p.put(old)
	p.free[0].used = time.Now().Add(-2 * Idle)
	p.put(young)
	if p.sweep(Idle); !old.closed || young.closed || !p.watched {
		t.Errorf("closed are %v, %v; the next look comes: %v", old.closed, young.closed, p.watched)
	}
	p.Close()
	if p.put(late); !young.closed || !late.closed || p.watched {
		t.Error("a connection outlives the end")
	}
}
