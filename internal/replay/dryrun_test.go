package replay

import (
	"encoding/json"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/writeset"
)

// TestManyAreTriedOut: of more transactions than a member tries at once the others wait there, and their origin is told
// of each; of more than that may wait it is told at once. Its server takes connections, and ends them later.
func TestManyAreTriedOut(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	conns := make(chan net.Conn, 100)
	var came atomic.Int32
	go func() {
		for {
			c, err := server.Accept()
			if err != nil {
				return
			}
			came.Add(1)
			conns <- c
		}
	}()
	var background sync.WaitGroup
	answers := make(chan Tried, 2*(triesMax+triesWait))
	r := NewDryRuns(DryRunOptions{
		ConnString: fmt.Sprintf("host=127.0.0.1 port=%d sslmode=disable", server.Addr().(*net.TCPAddr).Port),
		Config:     &config.Config{}, Applied: func() uint64 { return 1 }, Decided: func() uint64 { return 1 },
		Free: func() bool { return true }, Ending: func() bool { return false },
		Answer: func(_ uint32, outcome []byte) bool {
			var x Tried
			if err := json.Unmarshal(outcome, &x); err != nil {
				t.Error(err)
			}
			answers <- x
			return true
		},
		Background: func(f func()) { background.Go(f) },
	})
	payload := (&writeset.Writeset{Steps: []writeset.Step{{Definition: []byte("{}")}}}).Append(nil)
	const all = triesMax + triesWait + 3
	for seq := range uint64(all) {
		request, err := json.Marshal(tryRequest{Seq: seq, Base: 1, Payload: payload})
		if err != nil {
			t.Fatal(err)
		}
		r.TryFor(2, request)
	}
	for range 3 {
		if x := <-answers; x.Done || x.Seq < triesMax+triesWait {
			t.Errorf("answered at once: %+v", x)
		}
	}
	time.Sleep(100 * time.Millisecond)
	if len(answers) > 0 || len(conns) != triesMax {
		t.Errorf("%d more are answered, %d are tried at once", len(answers), len(conns))
	}
	go func() {
		for c := range conns {
			_ = c.Close()
		}
	}()
	background.Wait()
	if len(answers) != all-3 {
		t.Errorf("%d of %d are answered", len(answers), all-3)
	}
	if r.asked != 0 || r.bytes != 0 {
		t.Errorf("%d are still asked, of %d bytes", r.asked, r.bytes)
	}
	one, err := json.Marshal(tryRequest{Seq: all, Base: 1, Payload: payload})
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond) // who came before has been counted
	came.Store(0)
	r.bytes = triesBytes // of others
	r.TryFor(2, one)
	background.Wait()
	time.Sleep(100 * time.Millisecond)
	if came.Load() > 0 {
		t.Errorf("with %d bytes that wait already another one is tried", triesBytes)
	}
	r.bytes = 0
	r.TryFor(2, one)
	background.Wait()
	for began := time.Now(); came.Load() == 0; time.Sleep(time.Millisecond) {
		if time.Since(began) > 10*time.Second {
			t.Fatal("with no bytes that wait another one is not tried")
		}
	}
}
