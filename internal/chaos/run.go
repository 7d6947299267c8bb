package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// ErrFailed is returned by Run when something was wrong; it has been printed. ErrSlow is
// returned when all was right, but clients of survivors saw no commit for longer than they may.
var (
	ErrFailed = errors.New("the cluster failed, see above")
	ErrSlow   = errors.New("nothing was lost or wrong, but survivors stood still for too long, see above")
)

// run is one run of Run.
type run struct {
	*cluster
	rec      *recorder
	load     *load
	windows  []window
	end      time.Time // of the load
	before   map[int]sample
	samples  map[int][]sample
	beats    []int64 // see pulse
	after    map[int]sample
	problems []string
	slow     []string // gaps above their limits
}

const settle = 2 * time.Second // before the first fault, and before idle nodes are looked at

// Run makes faults for o.Seconds, or until ctx ends, and judges. It returns ErrFailed when the
// verdict is bad, and another error when it could not come to one.
func Run(ctx context.Context, o Options, out io.Writer) error {
	for o.Seed == 0 {
		o.Seed = rand.Uint64N(1 << 32)
	}
	if err := o.validate(); err != nil {
		return err
	}
	fmt.Fprintf(out, "seed %d, %d nodes, %d clients each, %d s, files in %s\n", o.Seed, o.Nodes, o.Clients, o.Seconds,
		o.Dir)
	fmt.Fprintf(out, "faults: %s\n", strings.Join(o.Faults, " "))
	for _, k := range kinds {
		if err := k.possible(&o); err != nil {
			fmt.Fprintf(out, "not made: %s, which %s\n", k.name, err)
		}
	}
	c, err := newCluster(ctx, &o, out)
	if err != nil {
		return err
	}
	r := &run{cluster: c}
	err = r.all(ctx)
	r.problems = append(r.problems, c.stop()...)
	if err != nil {
		return errors.Join(append([]error{err}, texts(r.problems)...)...)
	}
	r.judge()
	if len(r.problems)+len(r.slow) > 0 {
		fmt.Fprintf(out, "\nEverything is kept in %s; the history can be judged again: tutti chaos --judge %s\n", o.Dir,
			r.historyFile())
		if len(r.problems) == 0 {
			return ErrSlow
		}
		return ErrFailed
	}
	if o.Keep {
		return nil
	}
	return os.RemoveAll(o.Dir)
}

func texts(problems []string) (errs []error) {
	for _, p := range problems {
		errs = append(errs, errors.New(p))
	}
	return errs
}

func (r *run) historyFile() string { return filepath.Join(r.o.Dir, "history.jsonl") }

func (r *run) problem(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	r.say("PROBLEM %s", text)
	r.problems = append(r.problems, text)
}

// all is everything from the first start to the last look at the nodes. The nodes go on when
// ctx ends: only the faults end early.
func (r *run) all(ctx context.Context) (err error) {
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	if r.rec, err = newRecorder(r.historyFile(), r.began); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.rec.close()) }()
	if err := r.start(ctx, life); err != nil {
		return err
	}
	if err := r.prepare(ctx); err != nil {
		return err
	}
	sleep(life, settle)
	r.before = r.idle(life)
	for _, n := range r.members() {
		r.rec.change(n.k, false)
	}
	r.load = startLoad(r.cluster, r.rec)
	watching, stopWatching := context.WithCancel(life)
	defer stopWatching()
	var watchers sync.WaitGroup
	watchers.Go(func() { r.samples = r.watch(watching) })
	watchers.Go(func() { r.beats, err = pulse(watching, r.o.Dir, r.began) })
	sleep(ctx, settle)
	r.faults(ctx, life)
	r.end = time.Now()
	stopWatching()
	watchers.Wait()
	if err := r.load.end(); err != nil {
		r.problem("%v", err)
		r.diagnose(life)
		return nil // nothing that follows would be answered
	}
	r.finish(life)
	return err
}

// prepare makes the tables, and waits until all nodes have them.
func (r *run) prepare(ctx context.Context) error {
	for _, q := range schema {
		if _, err := ask(ctx, r.url(1), r.net.dial, q, sqlTimeout); err != nil {
			return fmt.Errorf("%s: %w", q, err)
		}
	}
	ready, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for _, n := range r.members() {
		if err := r.awaitQuery(ready, n.k, r.url(n.k), r.net.dial, "SELECT count(*) FROM chaos_tally"); err != nil {
			return err
		}
	}
	return nil
}

// faults makes one fault after the other until the time is up.
func (r *run) faults(ctx, life context.Context) {
	until := time.Now().Add(time.Duration(r.o.Seconds) * time.Second)
	s := newSchedule(r.o)
	for ctx.Err() == nil && time.Now().Before(until) {
		f := s.next()
		w := r.place(f, r.view(life))
		w.start = time.Now()
		r.say("#%d %s, at %s for %s", f.Number, w.fault, nodeNames(w.hit), f.For)
		heal, err := r.strike(life, w)
		if err == nil {
			r.changed(w, kindRemove)
			sleep(ctx, f.For)
			err = heal()
		}
		if err != nil {
			r.problem("fault #%d could not be made: %v", f.Number, err)
			if f.Kind == kindJoin || f.Kind == kindRemove {
				r.diagnose(life)
			}
			return
		}
		r.changed(w, kindJoin)
		w.healed = time.Now()
		back := r.recovered(life, w.healed)
		w.over = time.Now()
		r.windows = append(r.windows, w)
		r.say("#%d is over: every node commits again after %.2f s", f.Number, w.over.Sub(w.healed).Seconds())
		if !back {
			return
		}
		sleep(ctx, f.Pause)
	}
}

// changed has the clients and the history go by a change of the members, if a fault was one of this kind.
func (r *run) changed(w window, kind string) {
	if w.fault.Kind != kind {
		return
	}
	k := w.hit[len(w.hit)-1]
	if kind == kindJoin {
		r.load.comes(k)
	} else {
		r.load.goes(k)
	}
	r.rec.change(k, kind == kindRemove)
}

// recovered waits until every node has committed a transaction begun after a moment.
func (r *run) recovered(ctx context.Context, since time.Time) bool {
	for range r.o.Recover / pollInterval { // counted, so that a machine that sleeps loses no time
		sleep(ctx, pollInterval)
		missing := 0
		for _, n := range r.members() {
			if !r.rec.committedSince(n.k, since) {
				missing++
			}
		}
		if missing == 0 {
			return true
		}
	}
	for _, n := range r.members() {
		if !r.rec.committedSince(n.k, since) {
			r.problem("%s has not committed for %s after the fault was healed", n.name(), r.o.Recover)
		}
	}
	r.diagnose(ctx)
	return false
}

// finish compares and collects when all is quiet.
func (r *run) finish(ctx context.Context) {
	r.say("healed; %d transactions were acknowledged", r.rec.total())
	if r.o.changes() && len(r.problems) == 0 {
		r.votes(ctx)
	}
	args := []string{"check"}
	for _, n := range r.members() {
		args = append(args, "--address", r.address(n.k))
	}
	out, err := r.tool(ctx, args...)
	r.say("tutti check: %s", strings.TrimSpace(out))
	if err != nil {
		r.problem("tutti check: %v: %s", err, out)
	}
	for _, n := range r.members() {
		s, err := r.collect(ctx, n.k)
		if err != nil {
			r.problem("%s cannot be read: %v", n.name(), err)
			continue
		}
		r.rec.state(s)
	}
	// Backends take a moment to end.
	for deadline := time.Now().Add(5 * settle); ; {
		sleep(ctx, settle)
		r.after = r.idle(ctx)
		if len(r.leaks(r.before, r.after)) == 0 || time.Now().After(deadline) {
			break
		}
	}
	for _, leak := range r.leaks(r.before, r.after) {
		r.problem("%s", leak)
	}
}

// votesTimeout is in how much time all members vote that are to: one that was gone often waits for it.
const votesTimeout = 4 * time.Minute

// votes waits until as many members vote as are to.
func (r *run) votes(ctx context.Context) {
	began := time.Now()
	v := r.view(ctx)
	for ; !v.settled; v = r.view(ctx) {
		if time.Since(began) > votesTimeout || !sleep(ctx, settle) {
			r.problem("members %v, and their voters are %v after %s", v.members, v.voters, votesTimeout)
			return
		}
	}
	r.say("%s vote, of %d members, after %.0f s", nodeNames(v.voters), len(v.members), time.Since(began).Seconds())
}

func nodeNames(nodes []int) string {
	var names []string
	for _, k := range nodes {
		names = append(names, fmt.Sprintf("node%d", k))
	}
	return strings.Join(names, " ")
}
