package core

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/metrics"
	"github.com/tuttidb/tutti/internal/ordering"
	"github.com/tuttidb/tutti/internal/raftlog"
)

const patience = time.Minute // of a test

// logOf makes a log of a member in a new directory, which the test closes.
func logOf(t *testing.T, member uint64, voters []uint64, beforeSync func() error) *raftlog.Log {
	t.Helper()
	o := raftlog.Options{Dir: filepath.Join(t.TempDir(), "log")}
	if err := raftlog.Create(o, raftlog.Identity{Cluster: "c", Member: member, Voters: voters}); err != nil {
		t.Fatal(err)
	}
	o.BeforeSync = beforeSync
	disk, err := raftlog.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return disk
}

// cluster are cores of members 1, 2, …, whose frames reach each other unless a member is cut off.
type cluster struct {
	cores []*Core
	disks []*raftlog.Log
	ends  []chan error
	stops []context.CancelFunc

	mu   sync.Mutex
	cut  map[uint32]bool
	told bytes.Buffer // what the cores have logged
}

// Write is that of the cores' log.
func (x *cluster) Write(p []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.told.Write(p)
}

func (x *cluster) said(what string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return strings.Contains(x.told.String(), what)
}

// connected reports whether frames of a member arrive at another.
func (x *cluster) connected(from, to uint32) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return !x.cut[from] && !x.cut[to]
}

// start starts the cores of so many members. change may set other options.
func start(t *testing.T, members int, change func(member uint32, o *Options)) *cluster {
	t.Helper()
	x := &cluster{cut: map[uint32]bool{}}
	var voters []uint64
	for m := range members {
		voters = append(voters, uint64(m)+1)
	}
	for m := uint32(1); m <= uint32(members); m++ {
		disk := logOf(t, uint64(m), voters, nil)
		e, err := engine.New(engine.Options{Member: m, Incarnation: 1, Order: ordering.Options{Storage: disk}})
		if err != nil {
			t.Fatal(err)
		}
		o := Options{
			Log: slog.New(slog.NewTextHandler(x, nil)), Metrics: &metrics.Database{}, Engine: e, Disk: disk,
			Send: func(to uint32, data []byte) bool {
				if !x.connected(m, to) {
					return false
				}
				x.cores[to-1].Receive(m, data)
				return true
			},
			Member: m, Sites: func() [][]uint32 { return nil },
			Relay: func(to uint32, frame []byte) bool {
				return x.connected(m, to) && x.cores[to-1].Relay(m, frame) == nil
			},
			Relayed: func(to uint32, frame []byte) bool {
				return x.connected(m, to) && x.cores[to-1].Relayed(frame) == nil
			},
			Aborted: func(engine.Aborted) {}, Locked: func([]engine.Lock) {}, Fronts: func([]engine.Front) {},
			Moved: func(bool) {}, Survey: func() (bool, []uint32) { return false, nil },
			Leave: func(*engine.Engine) uint32 { return 0 }, Reaches: func(uint32) bool { return true },
			Rule:       func() (int, int) { return 2, 0 },
			Configures: func() bool { return true }, Members: func() (l engine.List) { return l },
		}
		if change != nil {
			change(m, &o)
		}
		x.cores, x.disks = append(x.cores, New(o)), append(x.disks, disk)
	}
	for _, c := range x.cores {
		ctx, stop := context.WithCancel(context.Background())
		end := make(chan error, 1)
		x.stops, x.ends = append(x.stops, stop), append(x.ends, end)
		go func() { end <- c.Run(ctx) }()
		go func() { // carries out what is ordered
			for {
				select {
				case <-c.Groups():
					c.Do(c.GroupDone)
				case <-c.stopped:
					return
				}
			}
		}()
	}
	t.Cleanup(func() {
		for i, stop := range x.stops {
			stop()
			<-x.cores[i].stopped
			_ = x.disks[i].Close() // a test may have broken it
		}
	})
	return x
}

// until waits until something is so.
func until(t *testing.T, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !so(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not after %v: %s", patience, what)
		}
	}
}

// leader is who all cores that are connected say leads; zero while they do not agree.
func (x *cluster) leader() (leader uint32) {
	for i, c := range x.cores {
		switch l := c.Leader(); {
		case !x.connected(uint32(i)+1, uint32(i)+1):
		case l == 0 || leader != 0 && l != leader:
			return 0
		default:
			leader = l
		}
	}
	return leader
}

// fence has a member order an item that changes nothing.
func fence(seq uint64) engine.Submission { return engine.Submission{Kind: engine.KindFence, Seq: seq} }

// TestRaftMeetsAFailedLog: the log has failed, and before the core hears of it raft asks it something: here because it
// wants to stand for election.
func TestRaftMeetsAFailedLog(t *testing.T) {
	broken := errors.New("the disk is broken")
	sync := func() error { return nil }
	disk := logOf(t, 1, []uint64{1, 2, 3}, func() error { return sync() })
	e, err := engine.New(engine.Options{Member: 1, Incarnation: 1, Order: ordering.Options{Storage: disk}})
	if err != nil {
		t.Fatal(err)
	}
	c := New(Options{
		Log: slog.New(slog.DiscardHandler), Metrics: &metrics.Database{}, Engine: e, Disk: disk,
		Send: func(uint32, []byte) bool { return false }, Moved: func(bool) {},
		Survey: func() (bool, []uint32) { return false, nil }, Sites: func() [][]uint32 { return nil },
	})
	sync = func() error { return broken }
	one := uint64(1)
	if err := disk.Append(nil, []*ordering.Entry{{Index: &one, Term: &one}}, true); !errors.Is(err, broken) {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	if err := c.Run(ctx); !errors.Is(err, broken) || !strings.HasPrefix(err.Error(), "the log cannot be written") {
		t.Errorf("the core ended with %v", err)
	}
	if err := disk.Close(); !errors.Is(err, broken) {
		t.Error(err)
	}
}

// TestOrders: what one member orders is carried out at all, and counted; a core that has stopped takes nothing.
func TestOrders(t *testing.T) {
	x := start(t, 3, nil)
	ctx := context.Background()
	for seq := uint64(1); seq <= 10; seq++ {
		if !x.cores[1].Order(ctx, fence(seq)) {
			t.Fatal("it is not taken")
		}
	}
	until(t, "all have carried out all", func() bool {
		for _, c := range x.cores {
			if c.Ordinal() < 10 || c.Applied() != c.Ordinal() {
				return false
			}
		}
		return true
	})
	if n := x.cores[1].o.Metrics.Transactions.Groups.Load(); n == 0 {
		t.Error("no group is counted")
	}
	x.stops[1]()
	if err := <-x.ends[1]; err != nil {
		t.Errorf("it ended with %v", err)
	}
	never := func(*engine.Engine) { t.Error("it runs after the end") }
	if c := x.cores[1]; c.Do(never) && c.Call(never) || c.Order(ctx, fence(11)) || c.checkpoint() != nil {
		t.Error("a core that has stopped takes something")
	}
}

// TestFullInbox: a frame that has no place is dropped, and nobody waits.
func TestFullInbox(t *testing.T) {
	c := New(Options{})
	for range coreQueueMax + 1 {
		c.Receive(2, nil)
	}
	if n := len(c.inbox); n != coreQueueMax {
		t.Errorf("%d frames wait", n)
	}
}

// TestDeparts: a leader that ends hands the lead over and goes on until another has it; if that one cannot be reached,
// or does not come, it ends all the same.
func TestDeparts(t *testing.T) {
	for name, reaches := range map[string]bool{"to one that comes": true, "to one that is gone": false} {
		t.Run(name, func(t *testing.T) {
			x := start(t, 3, func(member uint32, o *Options) {
				o.Leave = func(e *engine.Engine) uint32 {
					if e.View().Leader != member {
						return 0
					}
					heir := member%3 + 1
					e.HandOver(heir)
					return heir
				}
				o.Reaches = func(uint32) bool { return reaches }
			})
			until(t, "there is a leader", func() bool { return x.leader() != 0 })
			was := x.leader()
			heir := was%3 + 1
			if !reaches {
				x.mu.Lock()
				x.cut[heir] = true
				x.mu.Unlock()
			}
			x.stops[was-1]()
			began := time.Now()
			if err := <-x.ends[was-1]; err != nil {
				t.Fatal(err)
			}
			if now := x.cores[was-1].Leader(); reaches && now != heir {
				t.Errorf("member %d led when %d ended, not %d", now, was, heir)
			}
			if took := time.Since(began); !reaches && took > patience/2 {
				t.Errorf("it waited %v for a member that is gone", took)
			}
		})
	}
}

// TestCheckpoint: one is given once nothing is being written, and has what is ordered.
func TestCheckpoint(t *testing.T) {
	x := start(t, 1, nil)
	if !x.cores[0].Order(context.Background(), fence(1)) {
		t.Fatal("it is not taken")
	}
	until(t, "it is applied", func() bool { return x.cores[0].Applied() >= 1 })
	p := x.cores[0].checkpoint()
	if p == nil || p.Ordinal != x.cores[0].Ordinal() {
		t.Errorf("the checkpoint is %+v, the order is at %d", p, x.cores[0].Ordinal())
	}
	again, err := engine.DecodeCheckpoint(p.Append(nil))
	if err != nil || again.Index != p.Index {
		t.Errorf("it is read as %+v: %v", again, err)
	}
}

// TestRefusedFrame: what is no message of raft is said, and the core goes on.
func TestRefusedFrame(t *testing.T) {
	x := start(t, 1, nil)
	x.cores[0].Receive(2, []byte("no message"))
	until(t, "it is said", func() bool { return x.said("refused a member's message") })
	if !x.cores[0].Order(context.Background(), fence(1)) {
		t.Error("it takes nothing any more")
	}
}

// TestKeeper: the order of a dropped database has a leader as long as a majority of its members has it.
func TestKeeper(t *testing.T) {
	voters := []uint64{1, 2, 3}
	all := map[uint32]*Keeper{}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	for m := uint32(1); m <= 3; m++ {
		disk := logOf(t, uint64(m), voters, nil)
		send := func(to uint32, data []byte) bool {
			all[to].Receive(m, data)
			return true
		}
		r, err := NewKeeper(KeeperOptions{Member: m, Disk: disk, Send: send, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := disk.Close(); err != nil {
				t.Error(err)
			}
		}()
		all[m] = r
	}
	defer running.Wait()
	defer stop()
	for _, r := range all {
		running.Go(func() {
			if err := r.Run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	until(t, "the logs have the entry of an elected leader", func() bool {
		for _, r := range all {
			if last, err := r.o.Disk.LastIndex(); err != nil || last == 0 {
				return false
			}
		}
		return true
	})
}
