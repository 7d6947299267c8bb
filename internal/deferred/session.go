package deferred

import (
	"slices"
	"time"

	"github.com/tuttidb/tutti/internal/flow"
	"github.com/tuttidb/tutti/internal/intent"
	"github.com/tuttidb/tutti/internal/metrics"
	"github.com/tuttidb/tutti/internal/rowcache"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/writeset"
)

// Session is one session's part. Its goroutine alone calls it.
type Session struct {
	rows *Rows
	// stop reports whether its transaction waits in vain.
	stop  func() bool
	claim intent.Claim // what its transaction does to which tables
}

// Session makes one of a session; stop reports whether its transaction waits in vain. What it has begun ends with End.
func (r *Rows) Session(stop func() bool) *Session { return &Session{rows: r, stop: stop} }

// known is Known; called with mu held.
func (r *Rows) known(values *rowcache.Values, what session.Adds, applied uint64) (session.Counted, bool) {
	if r.claims.On(intent.Lock, what.Name) {
		return session.Counted{}, false
	}
	return values.Known(what.Row, applied)
}

// Known is described in session.Rows, as Learn is, There and LeaveAlone.
func (s *Session) Known(what session.Adds) (session.Counted, bool) {
	r := s.rows
	if r.o.Values <= 0 {
		return session.Counted{}, false
	}
	applied := r.o.Applied()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.known(r.at(r.o.Tables()), what, applied)
}

func (s *Session) Learn(row session.Counted) {
	r := s.rows
	if r.o.Values <= 0 {
		return
	}
	applied := r.o.Applied()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at(r.o.Tables()).Learn(row, applied)
}

func (s *Session) There(table, identity uint64) (there, resting bool) {
	return s.rows.present.has(table, identity)
}

func (s *Session) LeaveAlone(identities []uint64) { s.rows.present.rest(identities...) }

// PutOff is described in session.Deferred.
func (s *Session) PutOff(adds []session.Adds) (known []session.Counted, ok bool) {
	r := s.rows
	applied := r.o.Applied()
	r.mu.Lock()
	defer r.mu.Unlock()
	values := r.at(r.o.Tables())
	for _, what := range adds {
		row, ok := r.known(values, what, applied)
		if !ok {
			return nil, false
		}
		known = append(known, row)
	}
	for _, what := range adds {
		r.claims.Note(&s.claim, intent.Add, what.Name)
	}
	r.o.Metrics.Writes.Deltas.Add(uint64(len(adds)))
	return known, true
}

var (
	// locksWait is how long who asks for locks waits for those that add to rows. They would wait for the locks, and be
	// given way.
	locksWait = metrics.Most(flow.WaitRowLocks)
	// blindWait is how long a blind transaction waits for those that write to its tables otherwise, and holds nothing
	// meanwhile. If it were run as what it is instead, others would have to do so because of it, and so on for ever.
	blindWait = metrics.Most(flow.WaitBlind)
)

const (
	// blindRest is how long nobody waits for them if that was in vain: it may take long.
	blindRest = 500 * time.Millisecond
	// restsMax bounds the tables for which nobody waits.
	restsMax = 1 << 10
)

// Locks says that the session's transaction asks for locks on rows of tables, by their names, or on whole tables, or
// on any if there are none, and waits for those that add to rows there and are under way (DF3).
func (s *Session) Locks(tables []string) {
	if len(tables) == 0 {
		tables = []string{""}
	}
	r := s.rows
	r.mu.Lock()
	for _, table := range tables {
		r.claims.Note(&s.claim, intent.Lock, table)
	}
	r.mu.Unlock()
	if !r.adds(tables) {
		return
	}
	defer r.o.Metrics.Waits.Begin(flow.WaitRowLocks).End()
	for end := time.Now().Add(locksWait); r.adds(tables) && !s.stop() && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
}

// adds reports whether somebody adds to rows of one of the tables.
func (r *Rows) adds(tables []string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(tables, func(table string) bool { return r.claims.On(intent.Add, table) })
}

// Writing says that the session's transaction writes to a table, seeing it; to any if the name is empty.
func (s *Session) Writing(table string) {
	if s.claim.Does(intent.Write, table) {
		return
	}
	r := s.rows
	r.mu.Lock()
	defer r.mu.Unlock()
	r.claims.Note(&s.claim, intent.Write, table)
}

// Writes reports whether the session's transaction writes to any table, seeing it.
func (s *Session) Writes() bool { return s.claim.Has(intent.Write) }

// End forgets what the session's transaction does to which tables.
func (s *Session) End() {
	if s.claim.Empty() { // most have read
		return
	}
	r := s.rows
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.claims.End(&s.claim) && r.freed != nil {
		close(r.freed)
		r.freed = nil
	}
}

// Blind notes that the session's transaction changes rows of tables that it has not seen, unless sessions have locked
// rows there, or write to them otherwise: it waits for writers for a while (DF4), unless it must go. It reports whether
// it goes.
func (s *Session) Blind(tables []writeset.Table, must bool) bool {
	began := time.Now()
	for {
		ok, freed := s.goBlind(tables, must)
		if ok || freed == nil {
			return ok
		}
		wait := s.rows.o.Metrics.Waits.Begin(flow.WaitBlind)
		left := blindWait - time.Since(began)
		select {
		case <-freed:
			wait.End()
		case <-time.After(left):
			wait.End()
			s.rows.rest(tables)
			return false
		}
	}
}

// rest has nobody wait for tables for a while.
func (r *Rows) rest(tables []writeset.Table) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rests == nil {
		r.rests = rowcache.NewBackoff(restsMax)
	}
	for _, t := range tables {
		r.rests.Begin(t.Key, time.Now().Add(blindRest).UnixNano())
	}
}

// inVain reports whether nobody waits for a table now; called with mu held.
func (r *Rows) inVain(t *writeset.Table) bool {
	return r.rests != nil && r.rests.On(t.Key, time.Now().UnixNano())
}

// goBlind notes that a blind transaction is under way. If it cannot be because others write to its tables, freed may
// tell when there are fewer.
func (s *Session) goBlind(tables []writeset.Table, must bool) (ok bool, freed <-chan struct{}) {
	names := make([]string, len(tables))
	for i := range tables {
		names[i] = tables[i].Name
	}
	r := s.rows
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.o.Sighted {
		return false, nil
	}
	switch r.claims.Blind(&s.claim, names, must, func(i int) bool { return r.inVain(&tables[i]) }) {
	case intent.Goes:
		return true, nil
	case intent.Waits:
		if r.freed == nil {
			r.freed = make(chan struct{})
		}
		return false, r.freed
	}
	return false, nil
}
