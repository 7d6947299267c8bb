package deferred

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/certify"
	"github.com/tuttidb/tutti/internal/database/catalog"
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/flow"
	"github.com/tuttidb/tutti/internal/metrics"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/writeset"
)

// node is what Rows are told of their node.
type node struct {
	rows    *Rows
	metrics metrics.Database
	tables  atomic.Pointer[catalog.Tables]
	applied atomic.Uint64
}

// begin makes one whose values and blind writes are switched on, or off.
func begin(on bool) *node {
	n := &node{}
	o := Options{Sighted: !on, Metrics: &n.metrics, Applied: n.applied.Load, Tables: n.tables.Load}
	if on {
		o.Values = 10
	}
	n.rows = New(o)
	return n
}

func (n *node) session() *Session { return n.rows.Session(func() bool { return false }) }

// byte1 is a record whose image is one byte: what it holds, or what is added.
type byte1 struct{}

func (byte1) Read(image []byte) ([]int64, []byte, bool) { return []int64{int64(image[0])}, nil, true }

func (byte1) Sum(values []int64, image []byte) bool {
	values[0] += int64(image[0])
	return values[0] < 100
}

func changes(op writeset.Op, image ...byte) *writeset.Writeset {
	return &writeset.Writeset{
		Tables: []writeset.Table{{Schema: "s", Name: "t", Key: 50}},
		Rows:   []writeset.Row{{Op: op, Identity: 7, Image: image}},
	}
}

var (
	what   = session.Adds{Row: "r", Name: "t"}
	tables = []writeset.Table{{Name: "t", Key: 50}}
)

// row is one of which it is known what it holds.
func row() session.Counted {
	return session.Counted{Row: "r", Identity: 7, Values: []int64{10}, At: 5, Columns: byte1{}}
}

// TestValuesAreSeenInOrder (DF2): what own sessions and others have done to a row in one group counts in the order's
// order.
func TestValuesAreSeenInOrder(t *testing.T) {
	n := begin(true)
	s := n.session()
	s.Learn(row())
	n.rows.Committed(9, changes(writeset.OpAdd, 1))
	n.rows.Committed(7, changes(writeset.OpUpdate, 20))
	n.rows.GroupDone([]engine.Task{
		{Ordinal: 6, Writeset: changes(writeset.OpAdd, 5)}, {Ordinal: 8, Writeset: changes(writeset.OpAdd, 2)},
		{Ordinal: 10, Writeset: changes(writeset.OpAdd, 3)}, {Ordinal: 11},
	})
	if c, ok := s.Known(what); !ok || !slices.Equal(c.Values, []int64{26}) || c.At != 10 {
		t.Errorf("%+v", c)
	}
	if len(n.rows.sights) != 0 {
		t.Errorf("%d transactions of a group that is done are kept", len(n.rows.sights))
	}
}

// TestValuesAreForgotten (DF1): with other tables, behind a definition, and where a transaction may have changed more
// than its rows say, nothing is known. What somebody has lost by is not, until it is seen.
func TestValuesAreForgotten(t *testing.T) {
	lost := certify.Verdict{Reason: certify.KeyConflict, Key: writeset.Key{Hash: 7, Mode: writeset.Add},
		WinnerOrdinal: 8}
	for name, c := range map[string]struct {
		f    func(n *node)
		gone bool
	}{
		"nothing":      {func(*node) {}, false},
		"other tables": {func(n *node) { n.tables.Store(&catalog.Tables{}) }, true},
		"a definition": {func(n *node) { n.rows.ForgetValues() }, true},
		"steps":        {func(n *node) { n.rows.Forget(&writeset.Writeset{Steps: []writeset.Step{{}}}) }, true},
		"other rows":   {func(n *node) { n.rows.Forget(changes(writeset.OpUpdate, 3)) }, false},
		"a loser": {func(n *node) {
			n.rows.Lost(&writeset.Writeset{Rows: changes(writeset.OpAdd, 1).Rows, Tables: tables}, lost)
			n.applied.Store(9)
		}, true},
	} {
		n := begin(true)
		n.session().Learn(row())
		c.f(n)
		if _, ok := n.session().Known(what); ok == c.gone {
			t.Errorf("behind %s it is known: %v", name, ok)
		}
	}
}

// TestSwitchedOff: nothing is known, and nothing is blind.
func TestSwitchedOff(t *testing.T) {
	n := begin(false)
	s := n.session()
	s.Learn(row())
	n.rows.GroupDone([]engine.Task{{Ordinal: 6, Writeset: changes(writeset.OpInsert, 5)}})
	n.rows.Applied([]engine.Task{{Ordinal: 6, Writeset: changes(writeset.OpInsert, 5)}}, nil)
	_, known := s.Known(what)
	there, resting := s.There(50, 7)
	if count, _ := n.rows.Count(); known || there || resting || count > 0 || s.Blind(tables, true) {
		t.Errorf("known %v, there %v, resting %v, %d values", known, there, resting, count)
	}
}

// TestLocksAndDeltas (DF1, DF3): who asks for locks waits for those under way that add to rows of the tables, and for
// nobody who comes later.
func TestLocksAndDeltas(t *testing.T) {
	for _, c := range []struct {
		locked []string
		meets  bool
	}{{[]string{"t"}, true}, {[]string{"u", "t"}, true}, {nil, true}, {[]string{"u"}, false}} {
		n := begin(true)
		adds, locks := n.session(), n.session()
		adds.Learn(row())
		if known, ok := adds.PutOff([]session.Adds{what, what}); !ok || len(known) != 2 || known[1].Values[0] != 10 {
			t.Fatalf("it is not put off: %+v", known)
		}
		locked := make(chan struct{})
		go func() { defer close(locked); locks.Locks(c.locked) }()
		select {
		case <-locked:
			if c.meets {
				t.Errorf("locks on %v do not wait", c.locked)
			}
		case <-time.After(locksWait / 3):
			if !c.meets {
				t.Errorf("locks on %v wait", c.locked)
			}
		}
		_, known := adds.Known(what)
		if _, ok := n.session().PutOff([]session.Adds{what}); known == c.meets || ok == c.meets {
			t.Errorf("beside locks on %v it is known %v, and put off %v", c.locked, known, ok)
		}
		if adds.End(); c.meets {
			<-locked
		}
		locks.End()
		if _, ok := adds.Known(what); !ok || !n.rows.Quiet() {
			t.Errorf("behind locks on %v nothing is known, or they are still there", c.locked)
		}
		if d := n.metrics.Writes.Deltas.Load(); c.meets && d != 2 || !c.meets && d != 3 {
			t.Errorf("%d are counted beside locks on %v", d, c.locked)
		}
	}
}

// TestLocksWaitForAWhile (DF3): who asks for locks goes on though somebody still adds to rows, and at once if its
// transaction waits in vain.
func TestLocksWaitForAWhile(t *testing.T) {
	n := begin(true)
	adds := n.session()
	if !adds.Blind(tables, false) {
		t.Fatal("nobody is there, and it is not blind")
	}
	began := time.Now()
	n.session().Locks([]string{"t"})
	if took := time.Since(began); took < locksWait || took > 10*locksWait {
		t.Errorf("it has waited for %s", took)
	}
	stopped := n.rows.Session(func() bool { return true })
	began = time.Now()
	stopped.Locks([]string{"t"})
	if took := time.Since(began); took >= locksWait {
		t.Errorf("it waits in vain, and has for %s", took)
	}
}

// TestBlind (DF3, DF4): who is in the way of a blind transaction, and for how long; who asks for locks waits for one.
func TestBlind(t *testing.T) {
	n := begin(true)
	may := func(want, must bool, what string) {
		t.Helper()
		s := n.session()
		if got, _ := s.goBlind([]writeset.Table{{Name: "v"}, {Name: "t"}}, must); got != want {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
		if got := n.rows.adds([]string{"t"}); got != want {
			t.Errorf("%s: who asks for locks waits: %v", what, got)
		}
		s.End()
		if n.rows.adds([]string{"t", "v"}) {
			t.Errorf("%s: it does not end", what)
		}
	}
	may(true, false, "nobody is there")
	for _, x := range []struct {
		name, table string
		may         bool
	}{{"another table", "u", true}, {"the table", "t", false}, {"any table", "", false}} {
		writer, locker := n.session(), n.session()
		writer.Writing(x.table)
		writer.Writing(x.table)
		may(x.may, false, "a writer to "+x.name)
		may(true, true, "a writer to "+x.name+", and it must")
		if n.rows.Quiet() || !writer.Writes() {
			t.Errorf("a writer to %s is not seen", x.name)
		}
		writer.End()
		may(true, false, "the writer to "+x.name+" is gone")
		if tables := []string{x.table}; x.table == "" {
			locker.Locks(nil)
		} else {
			locker.Locks(tables)
		}
		may(x.may, false, "locks on "+x.name)
		may(x.may, true, "locks on "+x.name+", and it must")
		if locker.Writes() {
			t.Errorf("locks on %s are taken for writes", x.name)
		}
		locker.End()
		if !n.rows.Quiet() {
			t.Errorf("locks on %s are still seen", x.name)
		}
	}
}

// TestBlindWaits (DF4): it waits for who writes to its tables, but not for ever; then nobody waits for a moment.
func TestBlindWaits(t *testing.T) {
	n := begin(true)
	writer, blind := n.session(), n.session()
	writer.Writing("t")
	goes := make(chan bool)
	go func() { goes <- blind.Blind(tables, false) }()
	select {
	case <-goes:
		t.Fatal("it does not wait for a writer")
	case <-time.After(blindWait / 3):
	}
	writer.End()
	if !<-goes {
		t.Error("the writer has ended, and it does not go")
	}
	blind.End()
	writer.Writing("t")
	other := n.session()
	other.Writing("t")
	time.AfterFunc(blindWait*2/3, other.End) // it looks again then
	began := time.Now()
	goesOn := blind.Blind(tables, false)
	if took := time.Since(began); goesOn || took < blindWait || took > blindWait*3/2 {
		t.Errorf("it goes beside a writer: %v, after %s", goesOn, took)
	}
	began = time.Now()
	if blind.Blind(tables, false) || time.Since(began) > blindWait/2 {
		t.Errorf("it was in vain, and somebody has waited for %s", time.Since(began))
	}
	time.Sleep(blindRest)
	if _, freed := blind.goBlind(tables, false); freed == nil {
		t.Error("nobody waits ever again")
	}
	if n.metrics.Waits.Times.Of(flow.WaitBlind).Count() != 3 {
		t.Error("waits are not counted")
	}
}

// TestPresent (DF5): what was applied, or is committed, is there, but for what was missed, which is left alone, as is
// what a session has lost by.
func TestPresent(t *testing.T) {
	n := begin(true)
	s := n.session()
	w := &writeset.Writeset{Tables: []writeset.Table{{Name: "t", Key: 5}}, Rows: []writeset.Row{
		{Op: writeset.OpInsert, Identity: 7, Image: []byte{1}}, {Op: writeset.OpSet, Identity: 8, Image: []byte{1}},
	}}
	own := func(identity uint64) *writeset.Writeset {
		return &writeset.Writeset{Tables: w.Tables, Rows: []writeset.Row{
			{Op: writeset.OpInsert, Identity: identity, Image: []byte{1}}}}
	}
	n.rows.Applied([]engine.Task{{Writeset: w}, {}}, map[*writeset.Row]bool{&w.Rows[1]: true})
	n.rows.Commits(own(9))
	n.rows.Committed(4, own(10))
	s.LeaveAlone([]uint64{10})
	for identity, want := range map[uint64][2]bool{7: {true, false}, 8: {false, true}, 9: {true, false},
		10: {true, true}, 11: {false, false}} {
		if there, resting := s.There(5, identity); there != want[0] || resting != want[1] {
			t.Errorf("row %d is there %v, to be left alone %v", identity, there, resting)
		}
	}
	n.rows.Forget(&writeset.Writeset{Barrier: true})
	if there, _ := s.There(5, 7); there {
		t.Error("a row is known behind a barrier")
	}
}
