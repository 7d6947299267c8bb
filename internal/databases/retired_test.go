package databases

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/failure"
	"github.com/tuttidb/tutti/internal/standing"
)

// TestRetired (DB4): the log of a dropped database is kept, and heard, until every member has carried its end out. One
// that is not here counts as well, as other members may need it; one that cannot be read is fatal.
func TestRetired(t *testing.T) {
	c := &config.Config{Cluster: "c", Member: 1, DataDir: t.TempDir(), Members: []config.Member{{Member: 1}}}
	c.Limits.LogSegmentBytes = 1 << 20
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	begin := make(chan struct{})
	r := NewRetired(RetiredOptions{Config: c, Log: slog.New(slog.DiscardHandler), Context: ctx,
		Go:   func(f func()) { running.Go(func() { <-begin; f() }) },
		Fail: func(err error) { t.Error(err) },
		Send: func(uint32, uint64, []byte) bool { return true }})
	for _, id := range []uint64{5, 6} {
		if err := standing.New(c, c.Name, nil).CreateLog(id, standing.LogDir(c, id), nil, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	for id, dropped := range map[uint64]uint64{5: 18, 6: 30, 7: 20} { // the log of 7 is not here
		if err := r.Add(id, dropped); err != nil {
			t.Fatal(err)
		}
		r.Receive(id, 2, []byte("what is no word of an order"))
	}
	r.Receive(8, 2, nil)
	var bad *failure.Fatal
	if err := os.MkdirAll(standing.LogDir(c, 9), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := r.Add(9, 20); !errors.As(err, &bad) {
		t.Errorf("a log that cannot be read is %v", err)
	}
	if _, err := standing.OpenLog(standing.LogDir(c, 5), c, nil); err == nil {
		t.Error("nobody has the log")
	}
	logs := func() (names []string) {
		all, err := filepath.Glob(filepath.Join(c.DataDir, "log-*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range all {
			names = append(names, filepath.Base(name))
		}
		return names
	}
	var forgotten []uint64
	forget := func(id uint64) error {
		if slices.Contains(logs(), filepath.Base(standing.LogDir(c, id))) {
			t.Errorf("%d is forgotten, and its log is there", id)
		}
		forgotten = append(forgotten, id)
		return nil
	}
	if err := r.Remove(17, forget); err != nil || r.Count() != 3 || len(forgotten) > 0 {
		t.Errorf("before all have dropped them, %d are left, forgotten are %d: %v", r.Count(), forgotten, err)
	}
	wrong := errors.New("wrong")
	time.AfterFunc(20*time.Millisecond, func() { close(begin) })
	if err := r.Remove(18, func(id uint64) error {
		select {
		case <-r.logs[id].ended:
		default:
			t.Errorf("the log of %d is gone, and its order goes on", id)
		}
		return wrong
	}); err != wrong || r.Count() != 3 {
		t.Errorf("what cannot be forgotten: %v, %d are left", err, r.Count())
	}
	if err := r.Remove(20, forget); err != nil || r.Count() != 1 {
		t.Errorf("%d are left: %v", r.Count(), err)
	}
	slices.Sort(forgotten)
	if got := logs(); !slices.Equal(forgotten, []uint64{5, 7}) || !slices.Equal(got, []string{"log-6", "log-9"}) {
		t.Errorf("forgotten are %d, logs are %q", forgotten, got)
	}
	cancel()
	running.Wait()
	disk, err := standing.OpenLog(standing.LogDir(c, 6), c, nil)
	if err != nil {
		t.Fatalf("a log is not closed in the end: %v", err)
	}
	disk.Close()
}
