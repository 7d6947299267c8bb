package show

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/flow"
	"github.com/tuttidb/tutti/internal/metrics"
	"github.com/tuttidb/tutti/internal/peers"
	"github.com/tuttidb/tutti/internal/replica"
	"github.com/tuttidb/tutti/internal/session"
)

// shown is a replica of member 1 of three, of which the third does not answer.
func shown(t *testing.T) *Replica {
	known := map[uint32]peers.Status{}
	for member, told := range map[uint32]string{
		1: `{"state": "synced", "ordinal": 90, "applied": 90, "delay_micros": 1500, "because": 2, "version": "1.0",
			"differs": [{"table": "public.t", "members": [3, 2], "ordinal": 80}]}`,
		2: `{"state": "halted", "ordinal": 95, "applied": 70, "halted": {"ordinal": 71, "reason": "no"},
			"differs": [{"table": "public.u", "members": [3], "ordinal": 60}]}`,
	} {
		s := peers.Status{}
		if err := json.Unmarshal([]byte(told), &s); err != nil {
			t.Fatal(err)
		}
		known[member] = s
	}
	r := &Replica{
		Node: metrics.New(), Metrics: &metrics.Database{},
		Members: func() []config.Member {
			return []config.Member{{Member: 1, Name: "a", Clients: "a:1"}, {Member: 2, Name: "b"},
				{Member: 3, Name: "c", Role: config.Learner, Rank: -1, Site: "far"}}
		},
		Hears: func(uint32) bool { return true },
		Witnesses: func() []config.Member {
			return []config.Member{{Member: 4, Name: "w", Address: "w:1", Role: config.Witness}}
		},
		Name:    func(member uint32) string { return fmt.Sprint("node ", member) },
		Leader:  func() uint32 { return 3 },
		Voters:  func() []uint32 { return []uint32{1, 3} },
		Ordinal: func() uint64 { return 91 }, Applied: func() uint64 { return 90 },
		Peer: func(member uint32) (peers.Status, bool) {
			s, ok := known[member]
			return s, ok
		},
		Copies: func(uint32) uint32 { return 0 }, Slow: func() map[uint32]time.Time { return nil },
		Votes: func() []Votes {
			return []Votes{{Database: "x", Voters: []uint32{1, 3}, There: []uint32{1, 2}, Expel: 10 * time.Second,
				Copies: 1},
				{Database: "y"}}
		},
		Settings: func() *config.Limits { return &config.Limits{Sessions: 5, LogRetention: -1} },
		Levels:   func() Levels { return Levels{Sessions: 2, Delay: 2500, Slowest: replica.Lag{Items: 7, Bytes: 8}} },
		Databases: func() []Database {
			return []Database{{"shop", 1, known[1]}, {"other", 2, peers.Status{Status: replica.Status{Leader: 2}}}}
		},
		Parts: map[string]Part{"locks": {[]string{"lock"}, func() session.Result {
			return session.Result{Columns: []string{"lock"}, Rows: [][]string{{"held"}}}
		}}},
	}
	t.Cleanup(r.Node.Enter("shop", r.Metrics, nil))
	return r
}

// names are all that can be shown here.
var names = []string{"status", "members", "databases", "counters", "metrics", "waits", "limits", "applied", "locks",
	"votes"}

// TestColumns: what was announced is what comes (SH1), and what nobody knows is refused with the names there are.
func TestColumns(t *testing.T) {
	r := shown(t)
	for _, name := range names {
		got := r.Show(name)
		if got.Err != nil || len(got.Rows) == 0 || !slices.Equal(got.Columns, r.ShowColumns(name)) {
			t.Errorf("tutti.%s: %v, columns %q, %d rows", name, got.Err, got.Columns, len(got.Rows))
		}
		for _, row := range got.Rows {
			if len(row) != len(got.Columns) {
				t.Errorf("tutti.%s has a row %q", name, row)
			}
		}
	}
	e := r.Show("nothing").Err
	if e == nil || e.Code != "42704" {
		t.Fatalf("what nobody knows gives %v", e)
	}
	for _, name := range names {
		if !strings.Contains(e.Hint, "tutti."+name) {
			t.Errorf("%q does not name tutti.%s", e.Hint, name)
		}
	}
}

// TestStatus: every member has a row; of one that does not answer nothing is told but what others have found.
func TestStatus(t *testing.T) {
	want := [][]string{
		{"a", "a:1", "follower", "synced", "90", "90", "1", "1.5", "node 2", "", "", "1.0"},
		{"b", "", "learner", "halted", "95", "70", "21", "0", "", "entry 71: no", "public.t at ordinal 80", ""},
		{"c", "", "leader", "unreachable", "", "", "", "", "", "",
			"public.t at ordinal 80, public.u at ordinal 60", ""},
		{"w", "", "witness", "connected", "", "", "", "", "", "", "", ""},
	}
	for i, got := range shown(t).Show("status").Rows {
		if !slices.Equal(got, want[i]) {
			t.Errorf("%q, want %q", got, want[i])
		}
	}
	databases := shown(t).Show("databases").Rows
	if got := fmt.Sprint(databases); got != "[[shop 1 synced  90 90 0] [other 2  node 2 0 0 0]]" {
		t.Errorf("databases are %s", got)
	}
}

// TestMembers: the list, with roles, ranks and sites.
func TestMembers(t *testing.T) {
	const want = "[[1 a  a:1 voter 0  ] [2 b   voter 0  ] [3 c   learner -1 far ] [4 w w:1  witness 0  ]]"
	if got := fmt.Sprint(shown(t).Show("members").Rows); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestVotes: who votes in which database, and who is there.
func TestVotes(t *testing.T) {
	const want = "[[x 1 a yes yes 10s 1 voter 0 ] [x 2 b no yes 10s 1 voter 0 ] [x 3 c yes no 10s 1 learner -1 ] " +
		"[x 4 w no no 10s 1 witness 0 ] [y 1 a no no never 0 voter 0 ] [y 2 b no no never 0 voter 0 ] " +
		"[y 3 c no no never 0 learner -1 ] [y 4 w no no never 0 witness 0 ]]"
	if got := fmt.Sprint(shown(t).Show("votes").Rows); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestSlow: a member that is far too slow is, in whichever database, since when it was found to be.
func TestSlow(t *testing.T) {
	r, at := shown(t), map[uint32]time.Time{1: time.Date(2026, 11, 29, 21, 2, 3, 0, time.FixedZone("", 3600))}
	const since = "slow since 2026-11-29 20:02:03Z"
	r.Slow = func() map[uint32]time.Time { return at }
	one := r.Votes()[0]
	one.Slow = at
	both := []Votes{one, {Database: "y"}}
	r.Votes = func() []Votes { return both }
	if got := r.Show("status").Rows; got[0][9] != since || strings.Contains(got[1][9], "slow") {
		t.Errorf("%q", got)
	}
	if got := r.Show("votes").Rows; got[0][9] != since || got[1][9] != "" || got[4][9] != "" {
		t.Errorf("%q", got)
	}
	if got := r.Show("members").Rows; got[0][7] != "x: "+since || got[1][7] != "" {
		t.Errorf("%q", got)
	}
	both = both[:1]
	if got := r.Show("members").Rows[0][7]; got != since {
		t.Errorf("%q", got)
	}
}

// TestCopying: a member that copies a database does so, whatever was heard of it.
func TestCopying(t *testing.T) {
	r := shown(t)
	r.Copies = func(member uint32) uint32 { return member / 2 * 7 } // all but the first; a witness copies nothing
	for i, row := range r.Show("status").Rows {
		if copies := row[3] == "copying" && row[9] == "the database of node 7"; copies != (i == 1 || i == 2) {
			t.Errorf("member %d is shown as %q", i+1, row)
		}
	}
}

// TestLimits: there is a row for every limit, and what is unknown or has no bound is empty (SH2).
func TestLimits(t *testing.T) {
	r := shown(t)
	r.Metrics.Limits.Sessions.Add(3)
	got := map[string][]string{}
	for _, row := range r.Show("limits").Rows {
		got[row[0]] = row[1:]
	}
	for name, want := range map[string][]string{
		"sessions": {"5", "2", "3"}, "log_retention": {"", "0", "0"}, "writeset_bytes": {"0", "", "0"},
		"flow_delay_max_ms": {"0", "2", "0"}, "flow_lag": {"0", "7", "0"}, "flow_lag_bytes": {"0", "8", "0"},
	} {
		if !slices.Equal(got[name], want) {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
	if len(got) != 16 {
		t.Errorf("there are %d limits", len(got))
	}
}

// TestWaits: each wait has a row, with the bound of the table of waits and who waits now.
func TestWaits(t *testing.T) {
	r := shown(t)
	defer r.Metrics.Waits.Begin(flow.WaitLong).End()
	rows := r.Show("waits").Rows
	if len(rows) != len(flow.Waits) || rows[flow.WaitLong][5] != "1" || rows[flow.WaitOrder][5] != "0" {
		t.Errorf("they are %q", rows)
	}
	for i, row := range rows {
		w := flow.Waits[i]
		if (row[3] == "") != (w.MostMs == 0 && w.Setting == "") || !strings.HasSuffix(row[3], w.Setting) {
			t.Errorf("%s waits for %q at most", row[0], row[3])
		}
	}
}

// disk is a file that may fail.
type disk struct {
	mu      sync.Mutex
	failing bool
	written [][]byte
	tried   int
}

func (d *disk) replace(content []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tried++
	if d.failing {
		return errors.New("full")
	}
	d.written = append(d.written, bytes.Clone(content))
	return nil
}

// await waits until so many writings were tried, and says how many were done.
func (d *disk) await(t *testing.T, tries int) (done int) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		d.mu.Lock()
		tried, done := d.tried, len(d.written)
		d.mu.Unlock()
		if tried >= tries {
			return done
		}
		if time.Now().After(end) {
			t.Fatalf("%d writings were tried, not %d", tried, tries)
		}
	}
}

// TestFileIsKept: the file is written at once, when a client comes and something has changed, and again after it could
// not be written; not if nothing has changed (SH3).
func TestFileIsKept(t *testing.T) {
	d, come := &disk{failing: true}, make(chan struct{})
	f := File{Log: slog.New(slog.DiscardHandler), Metrics: metrics.New(), Replace: d.replace, Come: come,
		Clients: func() bool { return false }}
	ctx, cancel := context.WithCancel(context.Background())
	var kept sync.WaitGroup
	kept.Go(func() { f.Keep(ctx) })
	if done := d.await(t, 1); done != 0 {
		t.Fatal("it was written to a full disk")
	}
	d.mu.Lock()
	d.failing = false
	d.mu.Unlock()
	come <- struct{}{}
	if done := d.await(t, 2); done != 1 {
		t.Error("what has failed is not tried again")
	}
	f.Metrics.Process.Node.Restarts.Add(1) // or another number that no clock changes
	if done := d.await(t, 3); done != 2 || bytes.Equal(d.written[0], d.written[1]) {
		t.Error("a number that has changed is not written")
	}
	come <- struct{}{}
	time.Sleep(50 * time.Millisecond)
	cancel()
	kept.Wait()
	if d.tried != 3 {
		t.Error("it is written though nothing has changed")
	}
}
