package deferred

import (
	"cmp"
	"slices"
	"sync"

	"github.com/tuttidb/tutti/internal/certify"
	"github.com/tuttidb/tutti/internal/database/catalog"
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/intent"
	"github.com/tuttidb/tutti/internal/metrics"
	"github.com/tuttidb/tutti/internal/rowcache"
	"github.com/tuttidb/tutti/internal/writeset"
)

// Options are a replica as its deferred writes need it. The functions may be called from any goroutine.
type Options struct {
	// Values is of how many rows it is known what they hold; none if not positive.
	Values int
	// Sighted: no transaction is blind.
	Sighted bool
	Metrics *metrics.Database
	// Applied is up to where the order is applied here. Tables are described as of now.
	Applied func() uint64
	Tables  func() *catalog.Tables
}

// Rows is what is known of rows and done to tables. Safe for concurrent use, but for what the executor calls.
type Rows struct {
	o       Options
	present present

	mu     sync.Mutex
	tables *catalog.Tables  // as of which values are known
	values *rowcache.Values // nil: nothing was noted yet
	claims intent.Claims    // of the sessions' transactions
	// freed is closed when there are fewer who write; nil if nobody waits. Nobody waits for a table, by its key, for a
	// while after that was in vain.
	freed chan struct{}
	rests *rowcache.Backoff

	sights []sight // the executor's: what own sessions have committed of the running group
}

// sight is what a transaction has done.
type sight struct {
	ordinal  uint64
	writeset *writeset.Writeset
}

// New makes one that knows nothing.
func New(o Options) *Rows { return &Rows{o: o, present: present{off: o.Sighted}} }

// at is what is known as of the tables now; what was known as of other ones is forgotten. Called with mu held.
func (r *Rows) at(tables *catalog.Tables) *rowcache.Values {
	if r.tables != tables || r.values == nil {
		r.tables, r.values = tables, rowcache.NewValues(r.o.Values)
	}
	return r.values
}

// note calls f with what is known of values, if that is something.
func (r *Rows) note(f func(values *rowcache.Values)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.values != nil {
		f(r.values)
	}
}

// Count is of how many rows values are known, and how often all were forgotten because there were as many as there may
// be.
func (r *Rows) Count() (n int, full uint64) {
	r.note(func(values *rowcache.Values) { n, full = values.Count(), values.Full() })
	return n, full
}

// Lost notes by what a transaction has lost.
func (r *Rows) Lost(w *writeset.Writeset, v certify.Verdict) {
	r.note(func(values *rowcache.Values) { values.Lost(w, v) })
}

// Forget comes before what a transaction has done is visible, and forgets what that makes doubtful.
func (r *Rows) Forget(w *writeset.Writeset) {
	if r.o.Values > 0 && rowcache.Forgets(w) {
		r.ForgetValues()
	}
	r.present.forget(w)
}

// ForgetValues forgets all values.
func (r *Rows) ForgetValues() { r.note((*rowcache.Values).Clear) }

// Commits is called by the executor when it lets a session commit what it has written: its rows are there.
func (r *Rows) Commits(w *writeset.Writeset) { r.present.saw(w) }

// Committed is called by the executor when an own session has committed a transaction of the running group.
func (r *Rows) Committed(ordinal uint64, w *writeset.Writeset) {
	r.present.saw(w)
	r.sights = append(r.sights, sight{ordinal, w})
}

// Applied is called by the executor when it has applied tasks, but for rows of blind transactions that it has missed.
func (r *Rows) Applied(tasks []engine.Task, missed map[*writeset.Row]bool) {
	r.present.applied(tasks, missed)
}

// GroupDone is called by the executor, behind Committed, with what it has applied of the group: DF2.
func (r *Rows) GroupDone(applied []engine.Task) {
	sights := r.sights
	r.sights = nil // they may be large
	if r.o.Values <= 0 {
		return
	}
	for i := range applied {
		if w := applied[i].Writeset; w != nil {
			sights = append(sights, sight{applied[i].Ordinal, w})
		}
	}
	slices.SortFunc(sights, func(x, y sight) int { return cmp.Compare(x.ordinal, y.ordinal) })
	r.note(func(values *rowcache.Values) {
		for _, x := range sights {
			values.Saw(x.ordinal, x.writeset)
		}
	})
}

// Quiet reports whether no session has locked rows, or writes to some otherwise than blindly.
func (r *Rows) Quiet() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.claims.Quiet()
}
