package node

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/metrics"
	"github.com/tuttidb/tutti/internal/ordering"
	"github.com/tuttidb/tutti/internal/raftlog"
)

// TestRaftMeetsAFailedLog: the log has failed, and before the core hears of it raft asks it
// something: here because it wants to stand for election.
func TestRaftMeetsAFailedLog(t *testing.T) {
	broken := errors.New("the disk is broken")
	o := raftlog.Options{Dir: filepath.Join(t.TempDir(), "log")}
	if err := raftlog.Create(o, raftlog.Identity{Cluster: "c", Member: 1, Voters: []uint64{1, 2, 3}}); err != nil {
		t.Fatal(err)
	}
	sync := func() error { return nil }
	o.BeforeSync = func() error { return sync() }
	disk, err := raftlog.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(engine.Options{Member: 1, Incarnation: 1, Order: ordering.Options{Storage: disk}})
	if err != nil {
		t.Fatal(err)
	}
	c := newCore(coreOptions{
		log: slog.New(slog.NewTextHandler(io.Discard, nil)), metrics: &metrics.Database{}, engine: e, disk: disk,
		send:    func(uint32, []byte) bool { return false },
		aborted: func(engine.Aborted) {}, locked: func([]engine.Lock) {}, fronts: func([]engine.Front) {},
		moved: func(bool) {}, survey: func() (bool, []uint32) { return false, nil },
	})
	sync = func() error { return broken }
	one := uint64(1)
	if err := disk.Append(nil, []*ordering.Entry{{Index: &one, Term: &one}}, true); !errors.Is(err, broken) {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	if err := c.run(ctx); !errors.Is(err, broken) || !strings.HasPrefix(err.Error(), "the log cannot be written") {
		t.Errorf("the core ended with %v", err)
	}
	if err := disk.Close(); !errors.Is(err, broken) {
		t.Error(err)
	}
}
