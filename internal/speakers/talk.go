package speakers

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tuttidb/tutti/internal/capture"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
)

// Options are what a session's conversations need.
type Options struct {
	Pool    *Pool
	Backend uint32
	Context context.Context // ends with the replica
	Connect func() (Conn, error)
	Done    <-chan struct{} // closed when the replica begins to end, for which Ends is told
	Ends    func() error
}

// Talk is a session's part of a conversation with its backend's transaction. Its goroutine alone calls it.
type Talk struct {
	o            Options
	conn         Conn // nil if there is no conversation
	conversation string
	wait         int  // the number of what the backend will wait for, by a lock that conn holds; zero if there is none
	held         bool // the procedure's next transaction is held up
}

// New makes a Talk without a conversation.
func New(o Options) *Talk { return &Talk{o: o} }

// Attend begins a conversation.
func (t *Talk) Attend(conversation string) (err error) {
	select {
	case t.o.Pool.turns <- struct{}{}:
	case <-t.o.Done:
		return t.o.Ends()
	}
	conn := t.o.Pool.take()
	if conn == nil {
		if conn, err = t.o.Connect(); err != nil {
			<-t.o.Pool.turns
			return err
		}
	}
	t.conn, t.conversation = conn, conversation
	return nil
}

// Leave ends it, however far it has come (SP3).
func (t *Talk) Leave() {
	was := *t
	*t = Talk{o: t.o}
	if was.conn == nil {
		return
	}
	sql := capture.HushSQL(t.o.Backend) + was.wake()
	if was.held {
		sql += capture.InsideFreeSQL(t.o.Backend)
	}
	if _, err := was.conn.Query(t.o.Context, sql); err != nil {
		was.conn.Close() // with its locks
	} else {
		t.o.Pool.put(was.conn)
	}
	<-t.o.Pool.turns
}

// exec runs a Query of the conversation's.
func (t *Talk) exec(sql string) ([]*pgconn.Result, error) {
	r, err := t.conn.Query(t.o.Context, sql)
	if err != nil {
		return nil, fmt.Errorf("speakers: a procedure's transaction cannot be spoken to: %w", err)
	}
	return r, nil
}

// wake ends the wait that was begun, if there is one.
func (t *Talk) wake() string {
	if t.wait == 0 {
		return ""
	}
	n := t.wait
	t.wait = 0
	return capture.InsideWakeSQL(t.o.Backend, n)
}

// Say has the transaction carry the n'th command out, and then wait for the next one.
func (t *Talk) Say(n int, command string) error {
	sql := capture.SaySQL(t.o.Backend, t.conversation, n, command)
	next := n + 1
	if command == capture.InsideGo || command == capture.InsideFail {
		next = 0
	} else {
		sql += capture.InsideWaitSQL(t.o.Backend, next)
	}
	r, err := t.exec(sql + t.wake())
	if err != nil {
		return err
	}
	for i := range r {
		if rows := r[i].Rows; next > 0 && len(rows) == 1 && string(r[i].FieldDescriptions[0].Name) == "native_try" &&
			string(rows[0][0]) == "t" {
			t.wait = next
		}
	}
	return nil
}

// Texts gives a Reread's parameter as text, and its type.
func (t *Talk) Texts(r session.Reread) (array, typ string, err error) {
	sql, oid, format, value := r.Array()
	got := t.conn.With(t.o.Context, sql, value, oid, format)
	if got.Err == nil && len(got.Rows) != 1 {
		got.Err = fmt.Errorf("%d rows", len(got.Rows))
	}
	var pg *pgconn.PgError
	if errors.As(got.Err, &pg) { // it has a definition of the table that nobody else knows yet
		return "", "", wire.Errorf(wire.CodeFeatureNotSupported,
			"a procedure has defined a table anew, and changed a row of it more than once before its COMMIT").
			WithDetail("%s", pg.Message).WithHint("Let it commit the definition first.")
	}
	if got.Err != nil {
		return "", "", fmt.Errorf("speakers: rows of a procedure's cannot be read again: %w", got.Err)
	}
	return string(got.Rows[0][0]), string(got.Rows[0][1]), nil
}

// LetCommit has the transaction commit by the n'th command, and reports whether it has. Its next one is held up before
// it can have looked for anything that a writer relies on: others of the same group may not be visible yet. With an
// error it is not known whether it has committed: its backend is to be ended (SP4).
func (t *Talk) LetCommit(n int, slot uint32, incarnation, seq uint64) (committed bool, err error) {
	r, err := t.exec(capture.InsideHoldSQL(t.o.Backend))
	if err != nil {
		return false, err
	}
	if t.held = string(r[0].Rows[0][0]) == "t"; !t.held {
		return false, fmt.Errorf("speakers: the next transaction of a procedure at backend %d could not be held up",
			t.o.Backend)
	}
	if err := t.Say(n, capture.InsideGo); err != nil {
		return false, err
	}
	if r, err = t.exec(capture.InsideEndedSQL(t.o.Backend, slot, incarnation, seq)); err != nil {
		return false, err
	}
	return len(r[len(r)-1].Rows) == 1, nil
}
