package session_test

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/wire"
)

func (s *stage) exec(t testing.TB, sql string) {
	t.Helper()
	if _, err := s.admin.Exec(context.Background(), sql); err != nil {
		t.Fatal(err)
	}
}

// until waits until a query gives true.
func (s *stage) until(t testing.TB, sql string) {
	t.Helper()
	for end := time.Now().Add(waitMax); ; time.Sleep(time.Millisecond) {
		var is bool
		if err := s.admin.QueryRow(context.Background(), sql).Scan(&is); err != nil {
			t.Fatal(err)
		}
		if is {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("it is not so within %s: %s", waitMax, sql)
		}
	}
}

// next reads up to a frame of the given type without sending anything.
func (l *live) next(typ byte) string {
	l.t.Helper()
	l.trace = nil
	l.until(typ)
	return strings.Join(l.trace, "\n")
}

// TestIdleNotification: a client that waits is told at once, and what it does meanwhile does not
// disturb that.
func TestIdleNotification(t *testing.T) {
	s := newStage(t, true)
	l := s.live(t)
	l.want("Q LISTEN a", "LISTEN")
	for i := range 3 {
		s.exec(t, fmt.Sprintf("NOTIFY a, 'idle %d'", i))
		if got, want := l.next(wire.TypeNotificationResponse),
			fmt.Sprintf("NotificationResponse a idle %d", i); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		l.want("Q INSERT INTO t VALUES ("+fmt.Sprint(10+i)+", 'x')", "INSERT 0 1")
	}
	l.want("Q UNLISTEN a", "UNLISTEN")
	s.exec(t, "NOTIFY a, 'nobody'")
	l.want("Q SELECT 1", "DataRow 1\nCommandComplete SELECT 1\nReadyForQuery I")
}

// TestBlockHoldsNotifications: inside a block nothing is told, as in PostgreSQL, even while the
// backend has not heard of the block.
func TestBlockHoldsNotifications(t *testing.T) {
	s := newStage(t, true)
	for _, inside := range []string{"", "Q INSERT INTO t VALUES (9, 'x')"} {
		l := s.live(t)
		l.want("Q LISTEN a\nQ BEGIN", "BEGIN")
		l.do(inside)
		s.exec(t, "NOTIFY a, 'held'")
		l.want("Q SAVEPOINT b\nQ SELECT 1", "DataRow 1\nCommandComplete SELECT 1\nReadyForQuery T")
		if got := l.do("Q COMMIT"); got != "CommandComplete COMMIT\nNotificationResponse a held\nReadyForQuery I" {
			t.Errorf("COMMIT answered\n%s", got)
		}
	}
}

// TestListenCounts: what the host is told follows what PostgreSQL makes of it.
func TestListenCounts(t *testing.T) {
	s := newStage(t, true)
	l := s.live(t)
	for _, c := range []struct{ lines, want string }{
		{"Q LISTEN a", "a"},
		{"Q BEGIN\nQ LISTEN b\nQ ROLLBACK", "a"},
		{"Q BEGIN\nQ SAVEPOINT x\nQ LISTEN b\nQ ROLLBACK TO x\nQ LISTEN c\nQ COMMIT", "a c"},
		{"Q BEGIN\nQ LISTEN b\nQ INSERT INTO t VALUES (3, 'x')\nQ COMMIT", "a b c"},
		{"Q UNLISTEN b; LISTEN d", "a c d"},
		{"Q LISTEN e; SELECT 1/0", "a c d"},
		{"P |LISTEN \"f \"\"Ä\"\nB |\nE \nS", "a c d f \"Ä"},
		{"Q SET client_encoding = latin1\nQ LISTEN \"\\xe9\"\nQ RESET client_encoding", "a c d f \"Ä é"},
		{"Q UNLISTEN *", ""},
		{"Q LISTEN g\nQ BEGIN\nQ UNLISTEN *\nQ COMMIT", ""},
		{"Q LISTEN h\nQ DISCARD ALL", ""},
		{"Q DO $$ BEGIN EXECUTE 'LISTEN i'; END $$", ""}, // hidden, until it is asked for anyway
		{"Q UNLISTEN other", "i"},
	} {
		l.do(c.lines)
		slices.Sort(l.host.channels)
		if got := strings.Join(l.host.channels, " "); got != c.want {
			t.Errorf("after %s the session listens to %q, want %q", c.lines, got, c.want)
		}
	}
	heard := l.host.heard
	l.do("Q SELECT 1\nQ NOTIFY a\nQ INSERT INTO t VALUES (4, 'x')\nQ BEGIN\nQ SELECT 1\nQ COMMIT")
	if l.host.heard != heard {
		t.Error("statements that change nothing about it make the session ask for its channels")
	}
}

func TestListenRefused(t *testing.T) {
	s := newStage(t, true)
	l := s.live(t)
	l.want("Q LISTEN a", "LISTEN")
	l.host.noChannel = wire.Errorf(wire.CodeConfigurationLimit, "too many")
	for _, lines := range []string{"Q LISTEN b", "P |LISTEN b\nB |\nE \nS", "Q SELECT 1; LISTEN b"} {
		l.want(lines, "too many")
	}
	l.want("Q BEGIN\nQ LISTEN b\nQ SELECT 1\nQ COMMIT", "CommandComplete ROLLBACK")
	l.host.noChannel = nil
	l.want("Q SELECT * FROM pg_listening_channels()", "DataRow a\nCommandComplete SELECT 1")
	l.host.warning = wire.Errorf("01000", "not everywhere")
	l.host.warning.Severity, l.host.warning.SeverityUnlocalized = wire.SeverityWarning, wire.SeverityWarning
	l.want("Q LISTEN c", "CommandComplete LISTEN\nWARNING 01000 not everywhere\nReadyForQuery I")
}

// TestIdleBackendEnds: a client that has been silent for a while, which the node notices, is told when
// its backend ends, inside a block too.
func TestIdleBackendEnds(t *testing.T) {
	s := newStage(t, true)
	for _, before := range []string{"Q SELECT 1", "Q BEGIN\nQ INSERT INTO t VALUES (9, 'x')", "Q LISTEN a"} {
		l := s.live(t)
		l.do(before)
		for !l.host.watched() {
			l.host.poke() // it counts only when the session waits already
			time.Sleep(time.Millisecond)
		}
		s.exec(t, endBackends)
		if got := l.next(0); !strings.Contains(got, "FATAL 57P01") || !strings.HasSuffix(got, "connection closed") {
			t.Errorf("after %q the client was told\n%s", before, got)
		}
	}
}

// TestIdleFrames: everything a backend may say unasked is passed on, in order, also when it comes in
// pieces; and what it may not say ends the session.
func TestIdleFrames(t *testing.T) {
	s := newStage(t, true)
	conn, _ := s.backend(t)
	near, far := socketPair(t)
	go func() { _, _ = io.Copy(far, conn); _ = far.Close() }()
	go func() { _, _ = io.Copy(conn, far); _ = conn.Close() }()
	l := s.liveWith(t, near, wire.NewReader(near, wire.BackendLimits()))
	l.want("Q LISTEN a", "LISTEN")
	frames := wire.AppendParameterStatus(nil, "TimeZone", "Mars")
	frames = wire.AppendNoticeResponse(frames, wire.ErrorFields{Severity: "NOTICE", SeverityUnlocalized: "NOTICE",
		Code: "00000", Message: "psst"})
	frames = wire.AppendFrame(frames, wire.TypeNotificationResponse,
		[]byte("\x00\x00\x00\x01a\x00"+strings.Repeat("x", 7999)+"\x00"))
	for _, part := range [][]byte{frames[:3], frames[3:40], frames[40:]} {
		if _, err := far.Write(part); err != nil {
			t.Fatal(err)
		}
	}
	want := "ParameterStatus TimeZone=Mars\nNOTICE 00000 psst\nNotificationResponse a " + strings.Repeat("x", 7999)
	if got := l.next(wire.TypeNotificationResponse); got != want {
		t.Errorf("got %d bytes\n%.100s\nwant %d\n%.100s", len(got), got, len(want), want)
	}
	l.want("Q SELECT 1", "DataRow 1")
	if _, err := far.Write(wire.AppendCommandComplete(nil, "SELECT 1")); err != nil {
		t.Fatal(err)
	}
	if got := l.next(0); !strings.Contains(got, "FATAL") {
		t.Errorf("after an answer to nothing the client was told\n%s", got)
	}
}

// TestNotificationsUnderLoad: while statements run, every notification comes once and in order.
func TestNotificationsUnderLoad(t *testing.T) {
	const n = 500
	s := newStage(t, true)
	l := s.live(t)
	l.want("Q LISTEN a", "LISTEN")
	done := make(chan error, 1)
	go func() {
		for i := range n {
			if _, err := s.admin.Exec(context.Background(), "SELECT pg_notify('a', $1)", fmt.Sprint(i)); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	l.trace = nil
	got := 0
	for i := 0; got < n && i < 100_000; i++ {
		if i%3 == 0 {
			l.until(wire.TypeNotificationResponse)
		} else {
			l.step(t, "Q UPDATE t SET v = 'x' WHERE id = 1")
		}
		for _, line := range l.trace {
			if rest, ok := strings.CutPrefix(line, "NotificationResponse a "); ok {
				if rest != fmt.Sprint(got) {
					t.Fatalf("notification %s came where %d was due", rest, got)
				}
				got++
			} else if !strings.HasPrefix(line, "CommandComplete UPDATE 1") &&
				!strings.HasPrefix(line, "ReadyForQuery I") {
				t.Fatalf("got %q", line)
			}
		}
		l.trace = nil
	}
	if err := <-done; err != nil || got < n {
		t.Fatalf("%d of %d notifications came (%v)", got, n, err)
	}
}
