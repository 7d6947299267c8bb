package peers

import (
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"go.etcd.io/raft/v3"

	"github.com/tuttidb/tutti/internal/audit"
	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/flow"
	"github.com/tuttidb/tutti/internal/metrics"
	"github.com/tuttidb/tutti/internal/ordering"
	"github.com/tuttidb/tutti/internal/replica"
)

// three is what member 1 of three knows, which knows of itself what own says.
func three(own *replica.Own) *Peers {
	return New(Options{
		Config: &config.Config{Member: 1, Members: []config.Member{{Member: 1, Name: "a"}, {Member: 2, Name: "b"},
			{Member: 3, Name: "c"}}},
		Own:     func() replica.Own { return *own },
		Details: func() Details { return Details{Version: "v1", Halted: &Halt{Ordinal: 8, Reason: "here"}} },
		Send:    func(uint32, []byte) bool { return true },
		Voters:  func() []uint32 { return nil },
		Flow:    func() flow.Options { return flow.Options{Lag: 10} },
	})
}

func TestHaltText(t *testing.T) {
	h := &Halt{Ordinal: 7, Transaction: "1.2.3", Table: "public.t", Row: "(k)=(1)", Reason: "no"}
	if got, want := h.Text(), "entry 7 (transaction 1.2.3), table public.t, row (k)=(1): no"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, want := (&Halt{Ordinal: 7, Reason: "no"}).Text(), "entry 7: no"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestNobodyWaitsForHalted: a member that is halted lacks nothing that others wait for.
func TestNobodyWaitsForHalted(t *testing.T) {
	p := three(&replica.Own{})
	p.began = time.Now().Add(-time.Minute)
	for m, s := range map[uint32]Status{
		2: {replica.Status{State: replica.Synced, Applied: 9}, Details{}},
		3: {replica.Status{State: replica.Halted, Applied: 2}, Details{Halted: &Halt{Ordinal: 3}}},
	} {
		p.put(m, s, 0, 0)
	}
	if got := p.Lacking(5); len(got) != 0 {
		t.Errorf("LISTEN waits for %v", got)
	}
	if got := p.Lacking(10); len(got) != 1 || got[0] != "b" {
		t.Errorf("LISTEN waits for %v, and should for the one that is just behind", got)
	}
	if !p.Lagging(10) {
		t.Error("the one that is behind was heard, and does not count as busy")
	}
	p.began = p.began.Add(-4 * Interval)
	if p.Lagging(10) {
		t.Error("who is silent counts as busy")
	}
}

// TestWordsArrive: what a member tells of itself is what the others know of it, also what nobody decides by; a member
// that is forgotten, or has been silent for long, is not alive, and what is not understood changes nothing.
func TestWordsArrive(t *testing.T) {
	told := replica.Own{Serves: true, Incarnation: 4, Leader: 1, Ordinal: 70, Applied: 60, Clients: 5}
	from, to := three(&told), three(&replica.Own{Serves: true, Ordinal: 70, Applied: 70, Clients: 2})
	own := from.Own()
	own.Differs = []audit.Difference{{Table: "public.t"}}
	word, err := json.Marshal(own)
	if err != nil {
		t.Fatal(err)
	}
	if err := to.Hear(2, word); err != nil {
		t.Fatal(err)
	}
	s, alive := to.Of(2)
	if !alive || s.Applied != 60 || s.Version != "v1" || s.Halted.Text() != "entry 8: here" || len(s.Differs) != 1 {
		t.Errorf("it has heard %+v, alive: %v", s, alive)
	}
	if n := to.Clients(); n != 7 {
		t.Errorf("the members have %d clients", n)
	}
	if h := to.HaltedAt(2); h == nil || h.Ordinal != 8 || to.HaltedAt(3) != nil || to.HaltedAt(1).Reason != "here" {
		t.Error("it does not know who is halted")
	}
	if err := to.Hear(2, []byte("{")); err == nil {
		t.Error("what is no status is taken for one")
	}
	if got, _ := to.Get(2); got.Applied != 60 {
		t.Errorf("what was no status has changed what is known to %+v", got)
	}
	never := time.Unix(1, 0)
	if at := to.LastHeard(2, never); time.Since(at) > time.Minute || to.LastHeard(3, never) != never {
		t.Errorf("it was heard of at %v", at)
	}
	if to.Forget(2); to.HaltedAt(2) != nil {
		t.Error("a member whose connection is lost is alive")
	}
	if err := to.Hear(2, word); err != nil {
		t.Fatal(err)
	}
	to.began = to.began.Add(-2 * SilentAfter)
	if _, alive := to.Get(2); alive {
		t.Error("a member that has been silent is alive")
	}
}

// TestStopping: who has said that it stops does, as far as is known, until it says otherwise; what runs at a member is
// known while it can be heard.
func TestStopping(t *testing.T) {
	told := replica.Own{Serves: true, Stopping: true, Incarnation: 4}
	from, to := three(&told), three(&replica.Own{})
	word, err := json.Marshal(from.Own())
	if err != nil {
		t.Fatal(err)
	}
	if err := to.Hear(2, word); err != nil {
		t.Fatal(err)
	}
	if got := to.Stopping(); len(got) != 1 || got[0] != 2 || to.Version(2) != "v1" || to.Version(3) != "" {
		t.Errorf("%v stop; %q and %q run there", got, to.Version(2), to.Version(3))
	}
}

// TestTellAll: all others are told, and this member is not.
func TestTellAll(t *testing.T) {
	p := three(&replica.Own{})
	told := map[uint32]int{}
	p.o.Send = func(to uint32, word []byte) bool {
		var s Status
		if err := json.Unmarshal(word, &s); err != nil || s.Version != "v1" {
			t.Errorf("told %s: %v", word, err)
		}
		told[to]++
		return to == 3 // a word to the other is lost
	}
	if err := p.TellAll(); err != nil || len(told) != 2 || told[2] != 1 || told[3] != 1 {
		t.Errorf("told %v: %v", told, err)
	}
}

// TestFarthest: what all have applied is what the last of them has, the end of the order what the first has told.
func TestFarthest(t *testing.T) {
	own := replica.Own{Serves: true, Incarnation: 1, Leader: 2, Ordinal: 50, Applied: 40}
	p := three(&own)
	if got := p.AllApplied(); got != 0 {
		t.Errorf("nothing is heard, and all have applied %d", got)
	}
	for m, applied := range map[uint32]uint64{2: 70, 3: 30} {
		p.put(m, Status{replica.Status{State: replica.Synced, Incarnation: 1, Leader: 2, Ordinal: applied,
			Applied: applied}, Details{}}, own.Ordinal, 0)
	}
	if got := p.AllApplied(); got != 30 {
		t.Errorf("all have applied %d", got)
	}
	if p.Readmitted(3); p.AllApplied() != 0 {
		t.Error("what one has applied counts that has lost its disk")
	}
	if got := p.End().Ordinal; got != 70 {
		t.Errorf("the order ends at %d", got)
	}
	if got := p.Synced(); len(got) != 2 {
		t.Errorf("synced are %v", got)
	}
	if in := p.Flow(); in.Voters != 3 || len(in.Synced) < 2 {
		t.Errorf("the rule about slow members sees %+v", in)
	}
}

// TestDismissed: where all members end a database nobody is handed the lead.
func TestDismissed(t *testing.T) {
	p := three(&replica.Own{Serves: true})
	p.o.Dismissed = func() bool { return true }
	if to := p.Leave(nil); to != 0 {
		t.Errorf("member %d is to lead", to)
	}
}

// TestWhoCopies: that a database is lent is known of the lender, and of whom it tells that: the log is kept behind the
// copy, and it is shown who takes it.
func TestWhoCopies(t *testing.T) {
	lends := replica.Own{Lent: []replica.Loan{{Member: 3, Entry: 40, Open: true}}}
	from, to := three(&lends), three(&replica.Own{})
	if _, is := to.Lent(); is || to.Copies(3) != 0 {
		t.Error("nobody has said so, and the log is kept for a copy")
	}
	word, err := json.Marshal(from.Own())
	if err == nil {
		err = to.Hear(2, word)
	}
	if err != nil {
		t.Fatal(err)
	}
	for p, lender := range map[*Peers]uint32{from: 1, to: 2} {
		if entry, is := p.Lent(); !is || entry != 40 || p.Copies(3) != lender || p.Copies(2) != 0 {
			t.Errorf("%d, %v is kept, and member 3 copies from %d", entry, is, p.Copies(3))
		}
	}
}

// TestSlow: whom the leader has found far too slow is so here, and counted; this member says it of itself.
func TestSlow(t *testing.T) {
	own := replica.Own{Serves: true, Leader: 2, Ordinal: 100, Applied: 9}
	p := three(&own)
	p.o.Log, p.o.Metrics = slog.New(slog.DiscardHandler), &metrics.Database{}
	e, err := engine.New(engine.Options{Member: 1, Incarnation: 1, GoneTicks: 10,
		Position: engine.Position{Member: 1}, Order: ordering.Options{Storage: raft.NewMemoryStorage()}})
	if err != nil {
		t.Fatal(err)
	}
	p.paces(e)
	if p.IsSlow() || p.o.Metrics.Member.Slow.Load() != 0 {
		t.Error("it is slow, and nobody has said so")
	}
	p.put(2, Status{Status: replica.Status{State: replica.Synced, Leader: 2,
		Slow: []replica.Slow{{Member: 1, Times: 1, For: int64(time.Hour)}}}}, 0, 0)
	p.paces(e)
	since, is := p.Slow()[1]
	if !p.IsSlow() || !is || time.Since(since).Round(time.Minute) != time.Hour ||
		p.o.Metrics.Member.Slow.Load() != 1 || p.o.Metrics.Member.FoundSlow.Load() != 0 {
		t.Errorf("slow are %v", p.Slow())
	}
	p.put(2, Status{Status: replica.Status{State: replica.Synced, Leader: 2}}, 0, 0)
	if p.paces(e); p.IsSlow() || p.o.Metrics.Member.Slow.Load() != 0 {
		t.Error("it is slow, and the leader says so no longer")
	}
}
