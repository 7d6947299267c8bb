package grants

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"github.com/tuttidb/tutti/internal/admission"
	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/flow"
	"github.com/tuttidb/tutti/internal/metrics"
	"github.com/tuttidb/tutti/internal/process"
	"github.com/tuttidb/tutti/internal/schemalock"
	"github.com/tuttidb/tutti/internal/writeset"
)

const (
	patience = 2 * time.Second  // for the others to grant a lock, and for what they tell to be applied
	interval = time.Millisecond // between two looks
)

// Renewal is between two words of a lock that goes on.
const Renewal = 500 * time.Millisecond

// blockedMax is how long a transaction waits for locks to be over, and LOCK TABLE for one.
var blockedMax = metrics.Most(flow.WaitHeldBack)

// Reach is what a member knows of another one that it asks for a lock.
type Reach struct {
	// Alive: it is heard. Unheard: it may be alive although nothing was heard of it yet.
	Alive, Unheard bool
	// Halted: it serves nobody, so that nothing need be asked of it.
	Halted bool
}

// Options are a replica as its locks and turns need it. Its functions may be called from any goroutine.
type Options struct {
	Config  *config.Config
	Log     *slog.Logger
	Metrics *metrics.Database
	// Life is this member's incarnation.
	Life uint64
	// Clock is the time by which its sessions wait.
	Clock admission.Clock

	// Applied is up to where the order is applied here. Ordered is up to where it is known here; it waits for the core.
	Applied, Ordered func() uint64
	// Complete is Applied, but for a definition behind which the order goes on, and what comes after it.
	Complete func() uint64
	// Await returns when done is true, which it looks at whenever the order goes on, and after Wake.
	Await func(done func() bool)
	Wake  func()
	// Ending reports whether the replica ends.
	Ending func() bool
	// RowTurns reports whether all members understand turns at rows.
	RowTurns func() bool
	// Go runs f beside everything else; the replica's end waits for it.
	Go func(f func())

	// Reach is asked before a member is. Send sends a request, or the answer to one, to a member, and reports whether
	// it has left.
	Reach func(member uint32) Reach
	Send  func(to uint32, answer bool, word []byte) bool

	// Position is where PostgreSQL's WAL ends now. Gone reports whether a backend has ended, or the transaction with
	// which it has written. Blockers are the backends for whose locks one waits.
	Position func(context.Context) (uint64, error)
	Gone     func(ctx context.Context, pid uint32) (bool, error)
	Blockers func(ctx context.Context, pid uint32) ([]uint32, error)
}

// Grants are the locks and turns of a replica.
type Grants struct {
	*Locks
	*Turns

	rows      *Locks // turns at rows
	contended *contended
}

// New makes those of a replica that begins.
func New(o Options) *Grants {
	return &Grants{newLocks(o, schemalock.New(int64(blockedMax))), newTurns(o),
		newLocks(o, schemalock.InTurn(rowGrantsMax, rowsAbove)),
		&contended{clock: o.Clock, rows: map[uint64]losses{}}}
}

// of gives the locks to which one with a number belongs.
func (g *Grants) of(number uint64) *Locks {
	if number > rowsAbove {
		return g.rows
	}
	return g.Locks
}

// End lets no lock be granted any more.
func (g *Grants) End() {
	g.Locks.end()
	g.rows.end()
}

// Renew tells the others again and again which locks go on, and ends those of which nothing is heard. It returns when
// ctx ends.
func (g *Grants) Renew(ctx context.Context) error {
	for process.Rest(ctx, Renewal) {
		g.Word()
	}
	return nil
}

// Word is what Renew does each time, a Renewal after the last.
func (g *Grants) Word() {
	g.Locks.word()
	g.rows.word()
}

// Hear takes another member's word about a lock.
func (g *Grants) Hear(from uint32, word []byte) {
	var r schemalock.Request
	if err := json.Unmarshal(word, &r); err != nil {
		g.rows.o.Log.Warn("a member's word about a schema lock cannot be read", "member", from, "error", err)
		return
	}
	if r.Number > rowsAbove && r.Round > 0 {
		g.contended.asked(r.Keys)
	}
	g.of(r.Number).hear(from, r)
}

// Answered takes a member's answer.
func (g *Grants) Answered(from uint32, word []byte) {
	var a schemalock.Answer
	if err := json.Unmarshal(word, &a); err != nil {
		g.rows.o.Log.Warn("a member's answer about a schema lock cannot be read", "member", from, "error", err)
		return
	}
	a.From = from
	g.of(a.Number).answered(a)
}

// Locks are the schema locks of one database that a member knows of. Safe for concurrent use.
type Locks struct {
	o     Options
	began time.Duration

	mu      sync.Mutex
	locks   *schemalock.Locks
	answers map[uint64]*answers // to who asks, by the lock's number
}

func newLocks(o Options, locks *schemalock.Locks) *Locks {
	return &Locks{o: o, began: o.Clock.Now(), locks: locks, answers: map[uint64]*answers{}}
}

// others lists the other members.
func (x *Locks) others() (list []uint32) {
	for _, m := range x.o.Config.All() {
		if m.Member != x.o.Config.Member {
			list = append(list, m.Member)
		}
	}
	return list
}

// with calls f with what is known and the time.
func (x *Locks) with(f func(k *schemalock.Locks, now int64)) {
	x.mu.Lock()
	defer x.mu.Unlock()
	f(x.locks, int64(x.o.Clock.Now()-x.began)+1)
}

// end lets no lock be granted any more.
func (x *Locks) end() { x.with(func(k *schemalock.Locks, _ int64) { k.End() }) }

// Block reports whether a lock blocks a transaction that has written this. If not, nothing is noted of that.
func (x *Locks) Block(ws *writeset.Writeset) bool {
	blocks, _ := x.blocks(nil, ws, 0)
	return blocks
}

// blocks reports whether a lock blocks a transaction that has waited for so long, and whether it has lost to that. If
// it is not blocked, it passes. The session is nil for what has none.
func (x *Locks) blocks(s schemalock.Session, ws *writeset.Writeset, waited time.Duration) (blocks, lost bool) {
	applied := x.o.Applied()
	x.with(func(k *schemalock.Locks, now int64) { blocks, lost = k.Blocks(now, s, ws, applied, int64(waited)) })
	return blocks, lost
}

// Yield says whether a transaction of another member's life is being tried here. Those whom its locks block lose then.
func (x *Locks) Yield(member uint32, life uint64, tried bool) {
	x.with(func(k *schemalock.Locks, _ int64) { k.Yield(member, life, tried) })
	if tried {
		x.o.Wake()
	}
}

// word tells the others which locks go on, and ends those of which nothing is heard.
func (x *Locks) word() {
	var renewed []schemalock.Request
	known, applied := false, x.o.Applied()
	x.with(func(k *schemalock.Locks, now int64) { renewed, known = k.Renew(now, applied) })
	for _, r := range renewed {
		x.tell(r.Number, r)
	}
	if known {
		x.o.Wake() // one may block others no longer
	}
}

// tell tells all others about a lock.
func (x *Locks) tell(number uint64, r schemalock.Request) {
	r.Number, r.Life = number, x.o.Life
	for _, m := range x.others() {
		x.send(m, r)
	}
}

func (x *Locks) send(to uint32, r schemalock.Request) bool {
	word, err := json.Marshal(r)
	if err != nil {
		x.o.Log.Error("a schema lock cannot be written", "error", err)
		return false
	}
	return x.o.Send(to, false, word)
}

func (x *Locks) hear(from uint32, r schemalock.Request) {
	id := schemalock.ID{Member: from, Life: r.Life, Number: r.Number}
	if r.Over {
		x.with(func(k *schemalock.Locks, _ int64) { k.Over(id, r.Ordinal) })
		x.o.Wake()
		return
	}
	x.with(func(k *schemalock.Locks, now int64) {
		if k.Asked(now, id, r) {
			x.o.Go(func() { x.grant(id, r) })
		}
	})
}

// grant grants a lock, as soon as that can be (H2).
func (x *Locks) grant(id schemalock.ID, r schemalock.Request) {
	defer x.with(func(k *schemalock.Locks, _ int64) { k.Gave(id) })
	answer := schemalock.Answer{Number: r.Number, Round: r.Round, Life: r.Life}
	for deadline := x.o.Clock.Now() + patience; ; x.o.Clock.Rest(interval, nil) {
		var given, taken, vain bool
		x.with(func(k *schemalock.Locks, now int64) {
			given, taken, vain = k.Give(now, x.o.Config.Member, id, r)
		})
		if answer.Taken = taken && r.NoWait; given || answer.Taken {
			break
		}
		if vain || x.o.Ending() || !r.Patient && x.o.Clock.Now() > deadline {
			return
		}
	}
	if !answer.Taken {
		answer.Ordinal = x.o.Ordered()
	}
	word, err := json.Marshal(answer)
	if err != nil {
		x.o.Log.Error("an answer about a schema lock cannot be written", "error", err)
		return
	}
	x.o.Send(id.Member, true, word)
}

func (x *Locks) answered(a schemalock.Answer) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if answers := x.answers[a.Number]; answers != nil && a.Life == x.o.Life {
		answers.put(a)
	}
}

// want notes what a session wants to lock, and to where answers come, until heard is called. There is
// nothing to ask for if it has that, or has given up.
func (x *Locks) want(
	s *Session, tables schemalock.Tables, to *answers,
) (before schemalock.Before, request schemalock.Request, ask bool) {
	x.with(func(k *schemalock.Locks, _ int64) {
		if before, request, ask = k.Want(s, tables, x.o.Life); ask {
			x.answers[request.Number] = to
		}
	})
	return before, request, ask
}

// heard ends that answers about a lock are taken.
func (x *Locks) heard(number uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.answers, number)
}

// ask asks a member. Told: it can be heard, and the word has left. Unheard: it may be alive although nothing was heard
// of it yet.
func (x *Locks) ask(member uint32, request schemalock.Request) (told, unheard bool) {
	reach := x.o.Reach(member)
	if reach.Halted {
		return false, false
	}
	sent := x.send(member, request)
	return sent && (reach.Alive || reach.Unheard), reach.Unheard
}
