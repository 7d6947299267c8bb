package session_test

import (
	"context"
	"net"
	"testing"

	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
)

// alikeRows gives all rows that are changed unseen one identity.
type alikeRows struct{ session.Rewritten }

func (a alikeRows) Unseen(bind []byte, began session.Began) (session.Unseen, bool) {
	what, ok := a.Rewritten.Unseen(bind, began)
	what.Row.Identity = 42
	return what, ok
}

type alikeCollector struct{ unchanging }

func (a alikeCollector) Direct(d *semantics.Direct, answer [][]byte) (session.Rewritten, bool) {
	r, ok := a.unchanging.Direct(d, answer)
	return alikeRows{r}, ok
}

// TestUnseenAlike: of two rows that have one identity by chance, both are changed.
func TestUnseenAlike(t *testing.T) {
	s, _ := unseeing(t)
	conn, reader := s.backend(t)
	near, far := socketPair(t)
	l := &live{client: newClient(near), t: t, host: &fakeHost{admin: s.admin, client: far, backend: conn}, done: make(chan error, 1)}
	x := session.New(session.Options{
		Client: wire.NewReader(far, wire.FrontendLimits()), ClientOut: wire.NewWriter(far),
		Server: reader, ServerOut: wire.NewWriter(conn), Host: l.host, Collector: alikeCollector{s.unchanging()}, ReturnedBytesMax: s.returnedMax,
	})
	go func(conn net.Conn) {
		err := x.Run()
		_ = far.Close()
		_ = conn.Close()
		l.done <- err
	}(conn)
	t.Cleanup(func() { _ = near.Close(); <-l.done })
	l.until(wire.TypeReadyForQuery)
	l.do(addAll)
	for range 6 {
		l.do("Q BEGIN\nB |add|0|1\nE |0\nS\nQ COMMIT\nB |add|0|1\nE |0\nS")
	}
	var rows []int
	l.host.onBlind = func(sub session.Submission) (session.Decision, bool) {
		rows = append(rows, len(sub.Writeset.Rows))
		return session.Decision{}, false // somebody is in the way: it is run as what it is
	}
	l.want("Q BEGIN\nB |add|0|1\nE |0\nS\nQ COMMIT", "COMMIT")
	if len(rows) != 1 {
		t.Fatalf("a block of one statement is not carried out unseen: %v", rows)
	}
	rows = nil
	l.want("Q BEGIN\nB |add|5|1\nE |0\nS\nB |add|7|2\nE |0\nS\nQ COMMIT", "COMMIT")
	for _, n := range rows {
		if n != 2 {
			t.Errorf("of two rows %d would be changed unseen", n)
		}
	}
	var sum int
	if err := s.admin.QueryRow(context.Background(), "SELECT sum(n) FROM public.counters WHERE id IN (1, 2)").Scan(&sum); err != nil || sum != 42 {
		t.Errorf("the rows hold %d, %v", sum, err)
	}
}
