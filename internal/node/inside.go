package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tuttidb/tutti/internal/apply"
	"github.com/tuttidb/tutti/internal/capture"
	"github.com/tuttidb/tutti/internal/database/link"
	"github.com/tuttidb/tutti/internal/flow"
	"github.com/tuttidb/tutti/internal/outcome"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
)

// speakers are the connections by which sessions speak with transactions that their procedures commit. Each is made
// when it is first needed, and closed when nobody has needed it for a while.
type speakers struct {
	turns chan struct{} // as many as may be in use

	mu      sync.Mutex
	free    []speaker // the one used last at the end
	watched bool      // sweep will come
	closed  bool
}

type speaker struct {
	conn *pgconn.PgConn
	used time.Time // when it was given back
}

const (
	// speakersMax is how many such transactions a database collects and commits at a time; more wait.
	speakersMax = 8
	// speakerIdle is how long one is kept that nobody needs, about.
	speakerIdle = 5 * time.Second
)

func newSpeakers() *speakers { return &speakers{turns: make(chan struct{}, speakersMax)} }

// take gives one that is connected already, or nil.
func (s *speakers) take() *pgconn.PgConn {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.free)
	if n == 0 {
		return nil
	}
	conn := s.free[n-1].conn
	s.free = s.free[:n-1]
	return conn
}

// put gives one back.
func (s *speakers) put(conn *pgconn.PgConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		_ = conn.Close(context.Background()) // the server notices either way
		return
	}
	s.free = append(s.free, speaker{conn, time.Now()})
	s.watch()
}

// watch has sweep called in time. s is locked.
func (s *speakers) watch() {
	if !s.watched {
		s.watched = true
		time.AfterFunc(speakerIdle, func() { s.sweep(speakerIdle) })
	}
}

// sweep closes those that nobody has used for a while.
func (s *speakers) sweep(idle time.Duration) {
	s.mu.Lock()
	n := 0
	for n < len(s.free) && time.Since(s.free[n].used) >= idle {
		n++
	}
	old := s.free[:n:n]
	s.free = slices.Clone(s.free[n:])
	s.watched = false
	if len(s.free) > 0 {
		s.watch()
	}
	s.mu.Unlock()
	for _, x := range old {
		_ = x.conn.Close(context.Background()) // the server notices either way
	}
}

// close ends those that nobody uses; the others' sessions end theirs.
func (s *speakers) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.sweep(0)
}

// talk is a host's part of a conversation with its backend's transaction.
type talk struct {
	h            *host
	conn         *pgconn.PgConn // nil if there is no conversation
	conversation string
	wait         int  // the number of what the backend will wait for, by a lock that conn holds; zero if there is none
	held         bool // the procedure's next transaction is held up
}

// Attend begins a conversation.
func (t *talk) Attend(conversation string) (err error) {
	h := t.h
	select {
	case h.n.speakers.turns <- struct{}{}:
	case <-h.n.course.done:
		return outcome.Ending()
	}
	conn := h.n.speakers.take()
	if conn == nil {
		settings := apply.SessionSettings()
		settings["idle_session_timeout"] = "0"
		if conn, err = link.Connect(h.n.course.context, h.n.applier.ConnString, "tutti speaker", settings); err != nil {
			<-h.n.speakers.turns
			return err
		}
	}
	t.conn, t.conversation = conn, conversation
	return nil
}

// Leave ends it, however far it has come.
func (t *talk) Leave() {
	h, was := t.h, *t
	*t = talk{h: t.h}
	if was.conn == nil {
		return
	}
	sql := capture.HushSQL(h.g.PID()) + was.wake(h.g.PID())
	if was.held {
		sql += capture.InsideFreeSQL(h.g.PID())
	}
	if _, err := was.conn.Exec(h.n.course.context, sql).ReadAll(); err != nil {
		_ = was.conn.Close(context.Background()) // with its locks
	} else {
		h.n.speakers.put(was.conn)
	}
	<-h.n.speakers.turns
}

// exec runs a Query of the conversation's.
func (t *talk) exec(ctx context.Context, sql string) ([]*pgconn.Result, error) {
	r, err := t.conn.Exec(ctx, sql).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("node: a procedure's transaction cannot be spoken to: %w", err)
	}
	return r, nil
}

// wake ends the wait that was begun, if there is one.
func (t *talk) wake(pid uint32) string {
	if t.wait == 0 {
		return ""
	}
	n := t.wait
	t.wait = 0
	return capture.InsideWakeSQL(pid, n)
}

// Say has the transaction carry the n'th command out, and then wait for the next one.
func (t *talk) Say(n int, command string) error {
	h := t.h
	sql := capture.SaySQL(h.g.PID(), t.conversation, n, command)
	next := n + 1
	if command == capture.InsideGo || command == capture.InsideFail {
		next = 0
	} else {
		sql += capture.InsideWaitSQL(h.g.PID(), next)
	}
	r, err := t.exec(h.n.course.context, sql+t.wake(h.g.PID()))
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
func (t *talk) Texts(r session.Reread) (array, typ string, err error) {
	sql, oid, format, value := r.Array()
	got := t.conn.ExecParams(t.h.n.course.context, sql, [][]byte{value}, []uint32{oid}, []int16{format}, nil).Read()
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
		return "", "", fmt.Errorf("node: rows of a procedure's cannot be read again: %w", got.Err)
	}
	return string(got.Rows[0][0]), string(got.Rows[0][1]), nil
}

// GoesOn has it commit, and tells the executor how that ended, whatever it is: the log has decided, and the executor
// waits. The next transaction of the procedure is held up, before it can have looked for anything that a writer relies
// on: others of the same group may not be visible yet.
func (t *talk) GoesOn(n int, seq uint64) error {
	h := t.h
	h.seen = h.n.jobs.Seen()
	committed, err := t.letCommit(n, seq)
	h.Committed(seq, committed)
	if err != nil {
		return err
	}
	if committed && h.advisory != nil {
		h.advisory.GiveBack() // what the transaction had locked
	}
	h.g.CancelLate()
	return nil
}

// letCommit reports whether the transaction has committed. With an error that is not known: its backend is to be ended.
func (t *talk) letCommit(n int, seq uint64) (committed bool, err error) {
	h, ctx := t.h, t.h.n.course.context
	r, err := t.exec(ctx, capture.InsideHoldSQL(h.g.PID()))
	if err != nil {
		return false, err
	}
	if t.held = string(r[0].Rows[0][0]) == "t"; !t.held {
		return false, fmt.Errorf("node: the next transaction of a procedure at backend %d could not be held up",
			h.g.PID())
	}
	if err := t.Say(n, capture.InsideGo); err != nil {
		return false, err
	}
	if r, err = t.exec(ctx, capture.InsideEndedSQL(h.g.PID(), h.g.Slot(), h.n.incarnation, seq)); err != nil {
		return false, err
	}
	return len(r[len(r)-1].Rows) == 1, nil
}

// Follows lets the procedure's next transaction go on, once all is applied that was visible together with the last one,
// or it is in the way of that.
func (t *talk) Follows() (base uint64) {
	h := t.h
	after := h.after
	awaits(h.n, flow.WaitInside, func() bool {
		return h.n.core.Applied() >= after || h.n.course.ending() ||
			h.g.Lost() != nil
	})
	h.after = 0
	return h.n.core.Applied()
}
