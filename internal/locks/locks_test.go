package locks

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/tuttidb/tutti/internal/writeset"
)

// world drives a table and its shadow, which is restored from checkpoints now and then, and believes of each
// session what the events say.
type world struct {
	t             *testing.T
	table, shadow *Table
	holds         map[Session]map[Lock]bool
	waits         map[Session]map[Lock]bool
}

func (w *world) apply(member uint32, incarnation uint64, r *Request) {
	w.t.Helper()
	again, err := Decode(r.Append(nil))
	if err != nil {
		w.t.Fatal(err)
	}
	w.saw(w.table.Apply(member, incarnation, r), w.shadow.Apply(member, incarnation, again))
}

// saw takes the events of both, which must be equal (L1).
func (w *world) saw(a, b []Event) {
	w.t.Helper()
	if !reflect.DeepEqual(a, b) && len(a)+len(b) > 0 {
		w.t.Fatalf("one says %v, the one restored from a checkpoint %v", a, b)
	}
	for _, e := range a {
		if w.holds[e.Session] == nil {
			w.holds[e.Session], w.waits[e.Session] = map[Lock]bool{}, map[Lock]bool{}
		}
		switch e.Outcome {
		case Granted:
			w.holds[e.Session][e.Lock] = true
			delete(w.waits[e.Session], e.Lock)
		case Queued:
			w.waits[e.Session][e.Lock] = true
		case Deadlock:
			delete(w.waits[e.Session], e.Lock)
		}
	}
}

// judge checks the table against what sessions believe, and L2 to L4 by looking at all pairs.
// told says that members have just told who waits at them.
func (w *world) judge(told bool) {
	w.t.Helper()
	list := w.table.List()
	n := 0
	for i, a := range list {
		if a.Granted != w.holds[a.Session][a.Lock] || !a.Granted && !w.waits[a.Session][a.Lock] {
			w.t.Fatalf("%v is in the table; the session believes otherwise", a)
		}
		n++
		hindered := false
		for j, b := range list {
			if a.Lock.Key != b.Lock.Key || a.Session == b.Session || !a.Lock.Mode.Conflicts(b.Lock.Mode) {
				continue
			}
			if a.Granted && b.Granted {
				w.t.Fatalf("L2: %v and %v", a, b)
			}
			hindered = hindered || b.Granted || j < i
		}
		if !a.Granted && !hindered {
			w.t.Fatalf("L3: %v waits for nobody in %v", a, list)
		}
		if !a.Granted && w.table.circle(a.Session, a.Lock, told) {
			w.t.Fatalf("L4: %v waits for itself", a)
		}
	}
	for _, held := range w.holds {
		n -= len(held)
	}
	for _, waits := range w.waits {
		n -= len(waits)
	}
	if n != 0 {
		w.t.Fatalf("%d more are in the table than sessions believe: %v, %v, %v", n, list, w.holds, w.waits)
	}
}

func (w *world) forget(of func(Session) bool) {
	for s := range w.holds {
		if of(s) {
			delete(w.holds, s)
		}
	}
	for s := range w.waits {
		if of(s) {
			delete(w.waits, s)
		}
	}
}

// TestRandom: whatever is asked, in whatever order, L1 to L5 hold.
func TestRandom(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		w := &world{t, New(), New(), map[Session]map[Lock]bool{}, map[Session]map[Lock]bool{}}
		incarnation := map[uint32]uint64{1: 1, 2: 1, 3: 1}
		for range 200 {
			m := uint32(r.IntN(3) + 1)
			s := Session{m, incarnation[m], uint64(r.IntN(3))}
			lock := Lock{Key{0, uint32(r.IntN(3)), 1}, Mode(r.IntN(2) + 1)}
			q := &Request{Session: s.Number, Locks: []Lock{lock}}
			switch r.IntN(12) {
			case 0:
				q.Action, q.Locks = Leave, nil
				w.forget(func(x Session) bool { return x == s })
			case 1:
				incarnation[m]++
				w.forget(func(x Session) bool { return x.Member == m })
				w.saw(w.table.Begun(m, incarnation[m]), w.shadow.Begun(m, incarnation[m]))
				w.judge(false)
				continue
			case 2:
				w.forget(func(x Session) bool { return x.Member == m })
				w.saw(w.table.Expire(m), w.shadow.Expire(m))
				w.judge(false)
				continue
			case 3:
				q.Action, q.Locks = Blocked, nil
				for range r.IntN(3) {
					q.Edges = append(q.Edges, Edge{uint64(r.IntN(3)), uint64(3 + r.IntN(2))})
				}
			case 4, 5, 6:
				q.Action = Release
				delete(w.holds[s], lock)
				delete(w.waits[s], lock)
			case 7:
				q.Action = Try
			default:
				q.Action = Take
			}
			w.apply(m, s.Incarnation, q)
			w.judge(q.Action == Blocked)
			if r.IntN(10) == 0 {
				c := w.table.Checkpoint()
				again := w.shadow.Checkpoint()
				if !bytes.Equal(c.Append(nil), again.Append(nil)) {
					t.Fatal("equal tables have different checkpoints")
				}
				read, err := ReadCheckpoint(writeset.NewReader(c.Append(nil)))
				if err != nil {
					t.Fatal(err)
				}
				w.shadow = Restore(read)
			}
		}
	}
}

func say(events []Event) (out []string) {
	names := map[Outcome]string{Granted: "granted", Queued: "queued", Busy: "busy", Deadlock: "deadlock", Lost: "lost"}
	for _, e := range events {
		out = append(out, fmt.Sprintf("%d.%d %s", e.Session.Member, e.Session.Number, names[e.Outcome]))
	}
	return out
}

// TestQueue is what PostgreSQL does with the same requests.
func TestQueue(t *testing.T) {
	x, shared, other := Lock{Key{0, 1, 1}, Exclusive}, Lock{Key{0, 1, 1}, Shared}, Lock{Key{0, 2, 1}, Exclusive}
	x2, shared2 := Lock{Key{0, 3, 1}, Exclusive}, Lock{Key{0, 3, 1}, Shared}
	type step struct {
		member uint32
		action Action
		lock   Lock
		want   []string
	}
	for name, steps := range map[string][]step{
		"in order": {{1, Take, x, []string{"1.0 granted"}}, {2, Take, shared, []string{"2.0 queued"}},
			{3, Take, shared, []string{"3.0 queued"}}, {4, Take, x, []string{"4.0 queued"}},
			{1, Release, x, []string{"2.0 granted", "3.0 granted"}}, {2, Release, shared, nil},
			{3, Release, shared, []string{"4.0 granted"}}},
		"nobody overtakes": {{1, Take, shared, []string{"1.0 granted"}}, {2, Take, x, []string{"2.0 queued"}},
			{3, Take, shared, []string{"3.0 queued"}}, {4, Try, shared, []string{"4.0 busy"}},
			{2, Release, x, []string{"3.0 granted"}}},
		"but who holds it": {{1, Take, shared, []string{"1.0 granted"}}, {2, Take, shared, []string{"2.0 granted"}},
			{3, Take, x, []string{"3.0 queued"}}, {1, Take, x, []string{"1.0 queued"}},
			{2, Release, shared, []string{"1.0 granted"}}},
		"both want more": {{1, Take, shared, []string{"1.0 granted"}}, {2, Take, shared, []string{"2.0 granted"}},
			{1, Take, x, []string{"1.0 queued"}}, {2, Take, x, []string{"2.0 deadlock"}}},
		"a circle": {{1, Take, x, []string{"1.0 granted"}}, {2, Take, other, []string{"2.0 granted"}},
			{1, Take, other, []string{"1.0 queued"}}, {2, Take, x, []string{"2.0 deadlock"}},
			{2, Release, other, []string{"1.0 granted"}}},
		"one session, two waits": {{1, Take, x, []string{"1.0 granted"}}, {2, Take, other, []string{"2.0 granted"}},
			{3, Take, x, []string{"3.0 queued"}}, {3, Take, other, []string{"3.0 queued"}},
			{3, Take, other, []string{"3.0 busy"}}, {2, Take, x, []string{"2.0 deadlock"}},
			{1, Release, x, []string{"3.0 granted"}}, {2, Release, other, []string{"3.0 granted"}}},
		"a circle over the second wait": {{1, Take, x, []string{"1.0 granted"}},
			{2, Take, other, []string{"2.0 granted"}}, {1, Take, shared2, []string{"1.0 granted"}},
			{2, Take, x, []string{"2.0 queued"}}, {2, Take, x2, []string{"2.0 queued"}},
			{1, Take, other, []string{"1.0 deadlock"}}, {1, Release, x, []string{"2.0 granted"}},
			{1, Release, shared2, []string{"2.0 granted"}}},
		"its own do not keep it out": {{1, Take, shared, []string{"1.0 granted"}}, {2, Take, x, []string{"2.0 queued"}},
			{2, Take, shared, []string{"2.0 granted"}}, {1, Release, shared, []string{"2.0 granted"}}},
		"twice": {{1, Take, x, []string{"1.0 granted"}}, {1, Try, x, []string{"1.0 granted"}},
			{1, Release, x, nil}, {2, Try, x, []string{"2.0 granted"}}},
	} {
		table := New()
		for i, s := range steps {
			if got := say(table.Apply(s.member, 1, &Request{Action: s.action, Locks: []Lock{s.lock}})); !slices.Equal(
				got, s.want) {
				t.Errorf("%s, step %d: %v, want %v", name, i, got, s.want)
			}
		}
	}
}

// TestGone: a dead member's sessions hold and wait for nothing, and are told if they live.
func TestGone(t *testing.T) {
	x := Lock{Key{0, 1, 1}, Exclusive}
	begin := func() *Table {
		t := New()
		t.Apply(1, 1, &Request{Action: Take, Session: 5, Locks: []Lock{x}})
		t.Apply(1, 1, &Request{Action: Take, Session: 6, Locks: []Lock{x}})
		t.Apply(2, 1, &Request{Action: Take, Session: 7, Locks: []Lock{x}})
		return t
	}
	table := begin()
	if got := say(table.Begun(1, 1)); len(got) != 0 {
		t.Errorf("the same life: %v", got)
	}
	if got := say(table.Begun(1, 2)); !slices.Contains(got, "2.7 granted") {
		t.Errorf("a new life of member 1: %v", got)
	}
	table = begin()
	if got := say(table.Expire(1)); !slices.Equal(got, []string{"1.5 lost", "1.6 lost", "2.7 granted"}) {
		t.Errorf("member 1 expires: %v", got)
	}
	if got := table.Members(); !slices.Equal(got, []uint32{2}) {
		t.Errorf("left: %v", got)
	}
}

// TestBlocked: a circle over what members tell is opened where somebody waits for a lock.
func TestBlocked(t *testing.T) {
	table := New()
	a, b := Lock{Key{0, 1, 1}, Exclusive}, Lock{Key{0, 2, 1}, Exclusive}
	table.Apply(1, 1, &Request{Action: Take, Session: 1, Locks: []Lock{a}})
	table.Apply(2, 1, &Request{Action: Take, Session: 2, Locks: []Lock{b}})
	table.Apply(1, 1, &Request{Action: Take, Session: 1, Locks: []Lock{b}})
	table.Apply(2, 1, &Request{Action: Take, Session: 3, Locks: []Lock{a}})
	if got := say(table.Apply(2, 1, &Request{Action: Blocked, Edges: []Edge{{2, 3}}})); !slices.Equal(got,
		[]string{"1.1 deadlock"}) {
		t.Errorf("%v", got)
	}
}

// TestBlockedLater: what members tell may be over when somebody asks, so it counts when more is told. A wait that is no
// part of the circle goes on.
func TestBlockedLater(t *testing.T) {
	table := New()
	a, b := Lock{Key{0, 1, 1}, Exclusive}, Lock{Key{0, 2, 1}, Exclusive}
	take := func(member uint32, session uint64, l Lock) []string {
		return say(table.Apply(member, 1, &Request{Action: Take, Session: session, Locks: []Lock{l}}))
	}
	blocked := func(edges ...Edge) []string {
		return say(table.Apply(1, 1, &Request{Action: Blocked, Edges: edges}))
	}
	take(1, 1, a)
	take(2, 9, b)
	blocked(Edge{1, 2})
	if got := take(1, 2, a); !slices.Equal(got, []string{"1.2 queued"}) {
		t.Errorf("what was told is over: %v", got)
	}
	if got := blocked(); len(got) != 0 {
		t.Errorf("it was over: %v", got)
	}
	if got := blocked(Edge{1, 2}); !slices.Equal(got, []string{"1.2 deadlock"}) {
		t.Errorf("it is so: %v", got)
	}
	// Sessions 1 and 3 wait for each other at their PostgreSQL, which deals with that. A worker of 1's waits for 9.
	take(1, 1, b)
	if got := blocked(Edge{1, 3}, Edge{3, 1}); len(got) != 0 {
		t.Errorf("the wait for another member: %v", got)
	}
}

// goldenRequests are kept for ever: what version 1 looked like.
var goldenRequests = map[string]Request{
	"01010701020107" + "05": {Action: Take, Session: 7, Locks: []Lock{{Key{7, 5, 1}, Exclusive}}},
	"0103080201020304" + "02010506": {Action: Release, Session: 8,
		Locks: []Lock{{Key{3, 4, 2}, Shared}, {Key{5, 6, 1}, Exclusive}}},
	"01040900":   {Action: Leave, Session: 9},
	"0105":       {Action: Renew},
	"0106030405": {Action: Expire, Member: 3, Incarnation: 4, Number: 5},
	"0107010102": {Action: Blocked, Edges: []Edge{{1, 2}}},
}

func TestGoldenRequests(t *testing.T) {
	for text, want := range goldenRequests {
		data, _ := hex.DecodeString(text)
		got, err := Decode(data)
		if err != nil || !reflect.DeepEqual(*got, want) {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
		if again := want.Append(nil); !bytes.Equal(again, data) {
			t.Errorf("%x, want %s", again, text)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for text := range goldenRequests {
		data, _ := hex.DecodeString(text)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := Decode(data)
		if err != nil {
			return
		}
		again, err := Decode(r.Append(nil))
		if err != nil || !reflect.DeepEqual(r, again) {
			t.Fatalf("%+v became %+v, %v", r, again, err)
		}
		New().Apply(1, 1, r)
	})
}

func FuzzCheckpoint(f *testing.F) {
	table := New()
	x := Lock{Key{1, 2, 2}, Exclusive}
	table.Apply(1, 1, &Request{Action: Take, Session: 5, Locks: []Lock{x}})
	table.Apply(2, 1, &Request{Action: Take, Session: 6, Locks: []Lock{x}})
	table.Apply(2, 1, &Request{Action: Blocked, Edges: []Edge{{6, 7}}})
	c := table.Checkpoint()
	f.Add(c.Append(nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := writeset.NewReader(data)
		c, err := ReadCheckpoint(r)
		if err != nil || r.Done() != nil {
			return
		}
		again := Restore(c).Checkpoint()
		if a, b := c.Append(nil), again.Append(nil); !bytes.Equal(a, b) {
			t.Fatalf("%x became %x", a, b)
		}
	})
}
