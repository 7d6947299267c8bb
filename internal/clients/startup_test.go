package clients

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/metrics"
	"github.com/tuttidb/tutti/internal/wire"
)

// TestRefusal: start-up packets cannot set what replication depends on, however spelt.
func TestRefusal(t *testing.T) {
	for _, c := range []struct {
		name, value string
		refused     bool
	}{
		{"options", "-c search_path=a -c work_mem=1MB", false},
		{"application_name", "tutti.x", false},
		{"options", "-c tutti.tx=on", true},
		{"options", "--TUTTI.tx=on", true},
		{"options", `-c tut\ti.tx=on`, true},
		{"options", "--session-replication-role=replica", true},
		{"options", "-c SESSION_replication_role=replica", true},
		{"options", "-c ignore_system_indexes=on", true},
		{"Tutti.tx", "on", true},
		{"Session_Replication_Role", "replica", true},
		{"replication", "database", true},
	} {
		s := &wire.Startup{Params: map[string]string{"database": "d", c.name: c.value},
			Ordered: []wire.Param{{Name: c.name, Value: c.value}}}
		if got := Unacceptable(s); (got != nil) != c.refused {
			t.Errorf("%s=%s: %v, want refused %v", c.name, c.value, got, c.refused)
		}
	}
}

// TestAcceptIsBounded: strangers beyond the bound are refused and logged, and one who is admitted, or gone, makes room
// (CL2); at its end it waits for those it has taken.
func TestAcceptIsBounded(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	counts := &metrics.Process{}
	l := NewLog(slog.New(slog.DiscardHandler), &counts.Clients)
	taken, leave := make(chan func(), strangersMax+1), make(chan struct{})
	over := make(chan struct{})
	go func() {
		defer close(over)
		l.Accept(ctx, ln, func(conn net.Conn, admitted func()) {
			taken <- admitted
			<-leave
			conn.Close()
		})
	}()
	dial := func() net.Conn {
		t.Helper()
		conn, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	var admitted func()
	for range strangersMax {
		dial()
		admitted = <-taken
	}
	if _, err := dial().Read(make([]byte, 1)); !errors.Is(err, io.EOF) || len(taken) > 0 {
		t.Errorf("one stranger too many: %v, and %d are taken", err, len(taken))
	}
	if counts.Clients.Refused.Load() != 1 {
		t.Errorf("%d are refused", counts.Clients.Refused.Load())
	}
	admitted()
	dial()
	<-taken
	cancel()
	ln.Close()
	select {
	case <-over:
		t.Error("it ends before those it has taken")
	case <-time.After(20 * time.Millisecond):
	}
	close(leave)
	<-over
}
