package sim

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Only one simulation runs at a time in a process, so many seeds are run by child
// processes of the same binary: they read seeds, one per line, and answer with one Result
// each, as JSON.

// seedLimit is the real time a seed may take; one takes some hundredths of a second.
const seedLimit = 5 * time.Minute

// worker is a child process.
type worker struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *json.Decoder
	stderr bytes.Buffer
}

func startWorker(o Options) (*worker, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("sim: %w", err)
	}
	w := &worker{cmd: exec.Command(exe, append([]string{"sim", "--worker"}, o.flags()...)...)}
	w.cmd.Stderr = &w.stderr
	if w.in, err = w.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("sim: %w", err)
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("sim: %w", err)
	}
	w.out = json.NewDecoder(bufio.NewReader(out))
	if err := w.cmd.Start(); err != nil {
		return nil, fmt.Errorf("sim: %w", err)
	}
	return w, nil
}

// run hands a seed to the child. If the child dies of it, that is the result, and the
// worker is of no more use.
func (w *worker) run(seed uint64) (r Result, alive bool) {
	late := time.AfterFunc(seedLimit, func() { _ = w.cmd.Process.Kill() }) // seen as its end
	defer late.Stop()
	_, err := fmt.Fprintln(w.in, seed)
	if err == nil {
		err = w.out.Decode(&r)
	}
	if err == nil {
		return r, true
	}
	return Result{Seed: seed, Code: Crash, Message: fmt.Sprintf("the process that ran it ended: %v", w.cmd.Wait()),
		Stack: w.stderr.String()}, false
}

func (w *worker) close() {
	_ = w.in.Close() // it ends by this, and has nothing left to say
	_ = w.cmd.Wait()
}

// A simulation keeps little memory and throws much away. With Go's default of 100 % a third of a child's processor time
// is garbage collection.
const (
	childGCPercent = 2000
	childMemory    = 512 << 20 // near this many bytes garbage is collected more often
)

// serve is the child's side.
func serve(o Options, in io.Reader, out io.Writer) error {
	debug.SetGCPercent(childGCPercent)
	debug.SetMemoryLimit(childMemory)
	lines, answers := bufio.NewScanner(in), json.NewEncoder(out)
	for lines.Scan() {
		seed, err := strconv.ParseUint(lines.Text(), 10, 64)
		if err != nil {
			return fmt.Errorf("sim: %w", err)
		}
		if o.Planted == "process-dies" && seed%3 == 0 {
			os.Exit(99)
		}
		if err := answers.Encode(Run(seed, o)); err != nil {
			return fmt.Errorf("sim: %w", err)
		}
	}
	return lines.Err()
}

// pool runs a range of seeds in several workers.
type pool struct {
	o    Options
	keep bool // go on after a failure

	mu       sync.Mutex
	next, to uint64
	stopped  bool
	err      error
	seeds    int
	sum      Stats
	failed   []Result
}

// runPool runs the seeds from..to. Unless keep, no seed is begun after one failed; those
// under way end, so the smallest failing seed is found whatever the number of jobs. failed is in
// the order of seeds.
func runPool(from, to uint64, o Options, jobs int, keep bool) (*pool, error) {
	p := &pool{o: o, keep: keep, next: from, to: to}
	var wg sync.WaitGroup
	for range min(uint64(jobs), to-from+1) {
		wg.Add(1)
		go func() {
			defer wg.Done()
			if err := p.work(); err != nil {
				p.mu.Lock()
				p.err, p.stopped = err, true
				p.mu.Unlock()
			}
		}()
	}
	wg.Wait()
	slices.SortFunc(p.failed, func(a, b Result) int { return int(int64(a.Seed - b.Seed)) })
	return p, p.err
}

func (p *pool) work() error {
	for again := true; again; {
		w, err := startWorker(p.o)
		if err != nil {
			return err
		}
		again = p.feed(w)
		w.close()
	}
	return nil
}

// feed gives a worker seeds; true if it died of one and others are left.
func (p *pool) feed(w *worker) bool {
	for {
		p.mu.Lock()
		seed, stop := p.next, p.stopped || p.next > p.to
		if !stop {
			p.next++
		}
		p.mu.Unlock()
		if stop {
			return false
		}
		r, alive := w.run(seed)
		p.take(r)
		if !alive {
			return true
		}
	}
}

func (p *pool) take(r Result) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seeds++
	p.sum.add(r.Stats)
	if r.Code != OK {
		p.failed = append(p.failed, r)
		p.stopped = p.stopped || !p.keep
	}
}
