package witness

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/bootstrap"
	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/core"
	"github.com/tuttidb/tutti/internal/ordering"
	"github.com/tuttidb/tutti/internal/standing"
	"github.com/tuttidb/tutti/internal/transport"
)

// member is one with databases, as far as a witness sees it: its orders, without engines, and what it knows.
type member struct {
	t         *testing.T
	config    *config.Config
	standing  *standing.Standing
	transport *transport.Transport
	ctx       context.Context
	running   sync.WaitGroup

	mu      sync.Mutex
	keepers map[uint64]*core.Keeper
	listed  standing.Listed
}

const secret = "sixteen characters"

// port is a free one.
func port(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

// pair is a member, number 1, and the configuration of a witness, number 2, that the order has added.
func pair(t *testing.T) (*member, *config.Config) {
	t.Helper()
	one := config.Member{Member: 1, Name: "one", Address: port(t)}
	two := config.Member{Member: 2, Name: "two", Address: port(t)}
	a := &config.Config{Cluster: "c", Member: 1, DataDir: t.TempDir(), Listen: "127.0.0.1:1", MemberListen: one.Address,
		Secret: secret, Members: []config.Member{one}}
	w := &config.Config{Cluster: "c", Member: 2, DataDir: t.TempDir(), MemberListen: two.Address, Secret: secret,
		Witness: true, Members: []config.Member{one, two}}
	if err := errors.Join(a.Validate(), w.Validate()); err != nil {
		t.Fatal(err)
	}
	two.Role = config.Witness
	a.Becomes(&config.Roster{Ordinal: 3, Members: []config.Member{one}, Witnesses: []config.Member{two},
		Later: []uint32{2}, First: []uint32{1}})
	return start(t, a), w
}

func start(t *testing.T, c *config.Config) *member {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	m := &member{t: t, config: c, ctx: ctx, keepers: map[uint64]*core.Keeper{}, listed: standing.Listed{Applied: 3}}
	m.standing = standing.New(c, c.Name, func(err error) { t.Error(err) })
	m.standing.Found(&bootstrap.Contents{})
	m.standing.Decide()
	dir := standing.LogDir(c, standing.MainGroup)
	if err := m.standing.CreateMainLog(dir, nil); err != nil {
		t.Fatal(err)
	}
	disk, err := standing.OpenLog(dir, c, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.standing.Adopt(disk); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", c.MemberListen)
	if err != nil {
		t.Fatal(err)
	}
	m.transport, err = transport.New(transport.Options{Self: 1, Cluster: "c", Listener: ln,
		Peers: map[uint32]string{2: c.Address(2)}, QueueBytesMax: 128 << 20, Handler: m.receive,
		Credentials: func() transport.Credentials { return transport.Credentials{Secrets: [][]byte{[]byte(secret)}} },
		PeerName:    c.Name, Facts: m.standing.Facts, Judge: m.standing.Judge, Called: m.called,
		Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	m.run(standing.MainGroup)
	t.Cleanup(func() {
		cancel()
		m.running.Wait()
		if err := errors.Join(m.transport.Close(), disk.Close()); err != nil {
			t.Error(err)
		}
	})
	return m
}

// run goes on with the order of a database.
func (m *member) run(group uint64) *core.Keeper {
	m.t.Helper()
	dir := filepath.Join(m.config.DataDir, fmt.Sprint("order-", group))
	if err := m.standing.CreateLog(group, dir, nil, nil, nil); err != nil {
		m.t.Fatal(err)
	}
	disk, err := standing.OpenLog(dir, m.config, nil)
	if err != nil {
		m.t.Fatal(err)
	}
	k, err := core.NewKeeper(core.KeeperOptions{Member: 1, Disk: disk, Log: slog.New(slog.DiscardHandler),
		Send: func(to uint32, data []byte) bool {
			return m.transport.Send(to, append(binary.AppendUvarint([]byte{frameRaft}, group), data...))
		}})
	if err != nil {
		m.t.Fatal(err)
	}
	m.mu.Lock()
	m.keepers[group] = k
	m.mu.Unlock()
	m.running.Go(func() {
		if err := errors.Join(k.Run(m.ctx), disk.Close()); err != nil {
			m.t.Error(err)
		}
	})
	return k
}

func (m *member) receive(_ uint32, frame []byte) {
	group, n := binary.Uvarint(frame[1:])
	m.mu.Lock()
	k := m.keepers[group]
	m.mu.Unlock()
	if k != nil {
		k.Receive(2, frame[1+n:])
	}
}

func (m *member) called(from uint32, asked string) (func(context.Context, net.Conn), error) {
	if answer, is := m.standing.Lists(asked, func(context.Context) (standing.Listed, error) {
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.listed, nil
	}); is {
		return answer, nil
	}
	answer, is := m.standing.Answers(from, asked, func(member uint32, question uint64) map[uint64]uint64 {
		terms := map[uint64]uint64{}
		for group, k := range m.keepers {
			got := make(chan uint64, 1)
			k.Do(func(o *ordering.Order) {
				term, _ := o.Readmit(member, question)
				got <- term
			})
			terms[group] = <-got
		}
		return terms
	})
	if !is {
		return nil, errors.New("it answers nothing else")
	}
	return answer, nil
}

// lists has it say something else of the databases from now on.
func (m *member) lists(l standing.Listed) {
	m.mu.Lock()
	m.listed = l
	m.mu.Unlock()
}

// vote has these vote on an order, and the witness get the log, and waits for that. It asks for it again and again.
func (m *member) vote(k *core.Keeper, voters ...uint32) {
	m.t.Helper()
	m.soon(fmt.Sprint(voters, " vote"), func() bool {
		is := make(chan bool, 1)
		k.Do(func(o *ordering.Order) {
			o.Witnesses([]uint32{2})
			o.Vote(voters, []uint32{2}, nil)
			is <- slices.Equal(o.Voters(), voters) && slices.Equal(o.Readers(), []uint32{1, 2})
		})
		return <-is
	})
}

// decides has an order take something in, and waits until that is decided.
func (m *member) decides(k *core.Keeper) {
	m.t.Helper()
	var before uint64
	m.soon("an entry is decided", func() bool {
		is := make(chan uint64, 1)
		k.Do(func(o *ordering.Order) {
			index, _, _ := o.Stored()
			o.Propose([]byte("something"))
			is <- index
		})
		now := <-is
		if before == 0 {
			before = now
		}
		return now > before
	})
}

func (m *member) soon(what string, is func() bool) {
	m.t.Helper()
	for began := time.Now(); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > 30*time.Second {
			m.t.Fatalf("%s: not in time", what)
		}
	}
}

// running is a witness that runs.
type running struct {
	*Witness
	cancel context.CancelFunc
	ended  chan error
}

func run(t *testing.T, c *config.Config) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{Witness: New(c, slog.New(slog.NewTextHandler(t.Output(), nil))), cancel: cancel,
		ended: make(chan error, 1)}
	go func() { r.ended <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := r.ends(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// stop has it end; ends waits until it has, and gives how.
func (r *running) stop() error {
	r.cancel()
	return r.ends()
}

func (r *running) ends() error {
	select {
	case err := <-r.ended:
		r.ended <- nil
		return err
	case <-time.After(20 * time.Second):
		return errors.New("it does not end")
	}
}

// has reports whether there are the logs of these databases, beside the main one's.
func has(t *testing.T, c *config.Config, want ...uint64) bool {
	t.Helper()
	got, err := standing.OtherGroups(c)
	return err == nil && slices.Equal(got, want)
}

// withSeven has a database that is created at ordinal 7.
var withSeven = standing.Listed{Applied: 7, Orders: []standing.Order{{Group: 7, Voters: []uint32{1},
	Learners: []uint32{}}}}

// TestWitness: a witness votes on the order of each database of which it hears, again after a restart, and after it has
// lost its disk; not on that of one that is no more. It ends when it was removed.
func TestWitness(t *testing.T) {
	t.Parallel()
	m, c := pair(t)
	main := m.keepers[standing.MainGroup]
	w := run(t, c)
	m.vote(main, 1)
	m.vote(main, 1, 2)
	m.decides(main)

	m.lists(withSeven)
	seven := m.run(7)
	m.vote(seven, 1)
	m.vote(seven, 1, 2)
	m.decides(seven)
	if !has(t, c, 7) {
		t.Error("it has no log of the other database")
	}
	if err := w.stop(); err != nil {
		t.Fatal(err)
	}
	w = run(t, c)
	m.decides(main)
	m.decides(seven)

	m.lists(standing.Listed{Applied: 6}) // who says so has not heard of it yet
	time.Sleep(100 * time.Millisecond)
	m.decides(seven)
	m.vote(seven, 1)
	m.lists(standing.Listed{Applied: 9})
	m.soon("the log of a database that is no more goes", func() bool { return has(t, c) })
	m.mu.Lock()
	delete(m.keepers, 7)
	m.mu.Unlock()

	m.vote(main, 1) // or nobody could begin a term without it
	if err := errors.Join(w.stop(), os.RemoveAll(c.DataDir)); err != nil {
		t.Fatal(err)
	}
	w = run(t, c)
	m.soon("it begins its log again", func() bool {
		_, err := os.Stat(standing.LogDir(c, standing.MainGroup))
		return err == nil
	})
	m.vote(main, 1, 2)
	m.decides(main)

	r := *m.config.Roster()
	r.Ordinal, r.Gone, r.Witnesses, r.Later = 11, r.Witnesses, nil, nil
	m.config.Becomes(&r)
	m.soon("it takes itself for removed", func() bool { return !w.config.IsMember(2) })
	main.Do(func(o *ordering.Order) { o.Vote([]uint32{1}, nil, nil) })
	m.soon("it ends", func() bool {
		main.Do(func(o *ordering.Order) { o.Vote([]uint32{1}, nil, []uint32{2}) })
		return len(w.ended) > 0
	})
	if err := w.ends(); err == nil || !strings.Contains(err.Error(), "two was removed from the cluster") {
		t.Errorf("it ends with %v", err)
	}
}

// TestUnknown: a witness that nobody knows waits, and makes no log; it ends when it is told to.
func TestUnknown(t *testing.T) {
	t.Parallel()
	m, c := pair(t)
	r := *m.config.Roster()
	r.Witnesses, r.Later = nil, nil
	m.config.Becomes(&r)
	w := run(t, c)
	m.soon("it is told something", func() bool { return w.config.Roster() != nil })
	time.Sleep(100 * time.Millisecond)
	if _, err := os.Stat(standing.LogDir(c, standing.MainGroup)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it has made a log: %v", err)
	}
	if err := w.stop(); err != nil {
		t.Errorf("it ends with %v", err)
	}
}

// TestLostVote: a log that it has made, and that is gone, is not made anew: it may have voted in that.
func TestLostVote(t *testing.T) {
	t.Parallel()
	m, c := pair(t)
	w := run(t, c)
	m.lists(withSeven)
	seven := m.run(7)
	m.vote(seven, 1)
	if err := errors.Join(w.stop(), os.RemoveAll(standing.LogDir(c, 7))); err != nil {
		t.Fatal(err)
	}
	w = run(t, c)
	if err := w.ends(); err == nil || !strings.Contains(err.Error(), standing.LogDir(c, 7)) {
		t.Errorf("it ends with %v", err)
	}
}
