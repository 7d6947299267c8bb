package donor

import (
	"sync"
	"time"

	"github.com/tuttidb/tutti/internal/replica"
)

// loanRest is for how long the log is kept for a member that has taken a copy and has not begun from it.
const loanRest = 10 * time.Minute

// Loans are the copies that others take of this member's databases (DO5). Safe for concurrent use.
type Loans struct {
	mu   sync.Mutex
	list map[uint32]*loan // by the member to which it is lent
}

// loan is a copy of all databases.
type loan struct {
	databases map[uint64]Lent
	open      int       // connections through which it is taken
	ended     time.Time // when the last one was closed
}

// Lent is what is lent of one database.
type Lent struct {
	Entry  uint64 // the copy begins behind it in the log, at the earliest
	Before uint64 // the incarnation of the member to which it is lent, as was known
}

// Begin notes that a member begins to take a copy.
func (l *Loans) Begin(member uint32, databases map[uint64]Lent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.list == nil {
		l.list = map[uint32]*loan{}
	}
	open := 0
	if before := l.list[member]; before != nil {
		open = before.open
	}
	l.list[member] = &loan{databases: databases, open: open + 1}
}

// Moved notes that the copy of a database, which has begun, begins behind a later entry.
func (l *Loans) Moved(member uint32, database, entry uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	lent := l.list[member].databases[database]
	lent.Entry = entry
	l.list[member].databases[database] = lent
}

// End notes that a member no longer takes what it has begun to.
func (l *Loans) End(member uint32, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list[member].open--
	l.list[member].ended = now
}

// Of lists what is lent of a database. Begun says whether a member is synced in a later incarnation than one, so that
// nothing is kept for it any more.
func (l *Loans) Of(database uint64, now time.Time,
	begun func(member uint32, before uint64) bool) (list []replica.Loan) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for member, x := range l.list { // order-free: a set
		lent, is := x.databases[database]
		switch {
		case !is:
		case x.open == 0 && (now.Sub(x.ended) >= loanRest || begun(member, lent.Before)):
			delete(x.databases, database)
		default:
			list = append(list, replica.Loan{Member: member, Entry: lent.Entry, Open: x.open > 0})
		}
	}
	return list
}

// Pauses are how long a member rests before it takes a copy again that has had one just now: it was of no use.
type Pauses struct {
	last time.Time
	rest time.Duration
}

const (
	pauseFirst = 10 * time.Second
	pauseMost  = 10 * time.Minute
)

// Next is the rest before a copy that is needed now, twice as long each time.
func (p *Pauses) Next(now time.Time) time.Duration {
	if p.last.IsZero() || now.Sub(p.last) > 2*max(p.rest, pauseFirst) {
		p.rest = 0
		return 0
	}
	p.rest = min(max(2*p.rest, pauseFirst), pauseMost)
	return p.rest
}

// Took notes that a copy was taken.
func (p *Pauses) Took(now time.Time) { p.last = now }
