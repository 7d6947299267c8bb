package sim

import (
	"crypto/rand"
	"fmt"
	"io"
	"runtime/debug"
	"sync"
)

// Options says how long and with what a simulation runs.
type Options struct {
	// Members is the number of nodes; zero means 3 to 5, as the seed wants.
	Members int
	// SafetyMicros is the length of the phase with faults, simulated; zero means safetyMicros.
	SafetyMicros int64
	// Planted names a bug to build into the member model (or, in a binary built with the
	// tag `planted`, into the engine); empty for none. planted_test.go lists them.
	Planted string
	// BlackBox asks only the judge that knows no ordinals at the end.
	BlackBox bool
	// Trace receives a line per observable step; nil for none.
	Trace io.Writer
}

func (o *Options) validate() error {
	if o.Members < 0 || o.Members > 9 {
		return fmt.Errorf("sim: %d members; between 1 and 9 can be simulated", o.Members)
	}
	if o.SafetyMicros < 0 {
		return fmt.Errorf("sim: the phase with faults cannot last %d µs", o.SafetyMicros)
	}
	return nil
}

const (
	safetyMicros = 2_000_000
	eventsMax    = 20_000_000 // a run has some hundred thousand
)

// Code is the verdict of a run; it is also the exit code of `tutti sim`.
type Code int

const (
	// OK: every check passed.
	OK Code = 0
	// Safety: a promise was broken.
	Safety Code = 1
	// Liveness: no progress after every fault was healed.
	Liveness Code = 2
	// Crash: production code panicked.
	Crash Code = 3
)

func (c Code) String() string { return [...]string{"ok", "safety", "liveness", "crash"}[c] }

// Result is what a run came to.
type Result struct {
	Seed    uint64
	Code    Code
	Message string // what failed, or empty
	Stack   string // of a crash
	Hash    uint64 // of the trace: equal for equal seeds and builds
	Swarm   string
	Micros  int64 // simulated
	Members int
	Stats   Stats
}

// world is one simulation.
type world struct {
	seed     uint64
	o        Options
	swarm    swarm
	rnd      *random
	now      int64
	agenda   agenda
	net      *network
	members  []*member
	clients  []*client
	callers  *callers
	definers *definers
	truth    *truth
	history  []*attempt
	refusals []refusal
	stats    Stats
	hash     uint64

	tags, values uint64
	processes    int
	faulty       bool // in the safety phase
	phase        phase
	core         []*member // who must commit
	alive        []bool    // members that committed in this phase
	deadline     int64
	done         bool
}

// failure is how a run ends early.
type failure struct {
	code    Code
	message string
}

func (w *world) violation(format string, args ...any) {
	panic(failure{Safety, fmt.Sprintf(format, args...)})
}

func (w *world) after(micros int64, run func()) { w.agenda.push(w.now+micros, run) }

// note adds to the trace.
func (w *world) note(a, b, c uint64) {
	w.hash = mix(w.hash ^ mix(a^mix(b^mix(c^uint64(w.now)))))
	if w.o.Trace != nil {
		fmt.Fprintf(w.o.Trace, "%10d %x %x %x\n", w.now, a, b, c)
	}
}

func (w *world) say(format string, args ...any) {
	if w.o.Trace != nil {
		fmt.Fprintf(w.o.Trace, "%10d %s\n", w.now, fmt.Sprintf(format, args...))
	}
}

// base is the database log every database starts with.
func (w *world) base(member uint32) []record {
	r := record{adopt: &adoption{member: member}}
	for _, c := range initial() {
		r.changes = append(r.changes, tagged{c, initialTag, 0})
	}
	return []record{r}
}

// one simulation at a time: raft draws election timeouts from a process-wide source.
var one sync.Mutex

// Run simulates a cluster from a seed. Only one runs at a time in a process, and it
// replaces crypto/rand.Reader meanwhile.
func Run(seed uint64, o Options) (res Result) {
	one.Lock()
	defer one.Unlock()
	must(o.validate())
	if o.SafetyMicros == 0 {
		o.SafetyMicros = safetyMicros
	}
	reader := rand.Reader
	rand.Reader = newRandom(seed ^ 0xe1ec)
	defer func() { rand.Reader = reader }()
	w := &world{o: o, seed: seed, rnd: newRandom(seed), tags: initialTag, faulty: true}
	w.swarm = newSwarm(w.rnd, &o)
	plant(o.Planted)
	defer plant("")
	defer func() { w.definers.stop() }()
	defer func() { w.callers.stop() }()
	defer func() {
		res.Seed, res.Members, res.Swarm, res.Hash, res.Micros, res.Stats = seed, w.swarm.members, w.swarm.String(),
			w.hash, w.now, w.stats
		switch f := recover().(type) {
		case nil:
		case failure:
			res.Code, res.Message = f.code, f.message
		case crashed:
			res.Code, res.Message, res.Stack = Crash, fmt.Sprint(f.value), string(f.stack)
		default:
			res.Code, res.Message, res.Stack = Crash, fmt.Sprint(f), string(debug.Stack())
		}
	}()
	w.run()
	return res
}

func (w *world) run() {
	w.truth = newTruth(w)
	for i := range machines(w) {
		m := &member{w: w, id: uint32(i + 1), disk: newDisk(voters(w)),
			loss: loss{times: newRandom(mix(w.seed ^ 0xc0b1 + uint64(i)))}}
		m.db, m.disk.empty = newDatabase(w, m, w.base(m.id)), i >= w.swarm.members // of a spare
		w.members = append(w.members, m)
	}
	w.callers, w.definers = newCallers(w), newDefiners(w)
	w.net, w.alive = newNetwork(w), make([]bool, len(w.members))
	for _, m := range w.members {
		m.start()
		w.flush(m)
	}
	w.truth.voting.witness.begin()
	for i := range w.swarm.clients {
		c := &client{w: w, home: w.members[i%w.swarm.members]}
		c.newProcess()
		w.clients = append(w.clients, c)
		c.next()
	}
	w.callers.begin()
	w.definers.begin()
	w.faults()
	w.loseDisk(w.seed)
	w.truth.voting.begin(w)
	w.truth.voting.removal.begin(w)
	w.truth.voting.joins.begin()
	w.deadline = w.swarm.safety + w.definers.grace()
	w.after(w.swarm.safety, func() {
		w.advance()
		w.supervise()
	})
	for !w.done {
		e := w.agenda.pop()
		w.now = e.at
		e.run()
		if w.now > w.deadline && w.truth.voting.excuses(w) {
			w.stats.Members.Interrupted++
			w.advance()
		}
		if w.now > w.deadline || w.agenda.seq > eventsMax {
			panic(failure{Liveness, w.stuck()})
		}
	}
	w.judge()
}

// flush makes the database's log durable now and then.
func (w *world) flush(m *member) {
	w.after(w.rnd.between(w.swarm.flushEvery/2, w.swarm.flushEvery), func() {
		if !m.db.dead {
			m.db.durable = len(m.db.log)
		}
		w.flush(m)
	})
}
