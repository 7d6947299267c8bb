package sim

import (
	"flag"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// Main is `tutti sim`: it runs the seeds args ask for, reports to out, and returns the exit
// code, which is the first failing run's Code. Bad arguments give 64.
func Main(args []string, out io.Writer) int {
	const usage = 64
	f := flag.NewFlagSet("sim", flag.ContinueOnError)
	f.SetOutput(out)
	seed := f.Uint64("seed", 0, "run this one seed and say all about it")
	seeds := f.String("seeds", "1..100", "run the seeds from A to B, `A..B`")
	members := f.Int("members", 3, "members of the cluster")
	millis := f.Int64("millis", 1500, "simulated milliseconds with faults")
	trace := f.Bool("trace", false, "with -seed: print every observable step")
	keep := f.Bool("keep-going", false, "run the remaining seeds after one failed")
	if err := f.Parse(args); err != nil {
		return usage
	}
	o := Options{Members: *members, SafetyMicros: *millis * 1000}
	if err := o.validate(); err != nil {
		fmt.Fprintln(out, err)
		return usage
	}
	if *seed != 0 {
		if *trace {
			o.Trace = out
		}
		r := Run(*seed, o)
		r.print(out)
		return int(r.Code)
	}
	from, to, err := parseRange(*seeds)
	if err != nil {
		fmt.Fprintln(out, err)
		return usage
	}
	return runSeeds(from, to, o, *keep, out)
}

func runSeeds(from, to uint64, o Options, keep bool, out io.Writer) int {
	code, n, failed := OK, 0, 0
	commits := 0
	start := time.Now()
	for s := from; s <= to; s++ {
		r := Run(s, o)
		n++
		commits += r.Stats.Committed
		if r.Code == OK {
			continue
		}
		failed++
		if code == OK {
			code = r.Code
		}
		r.print(out)
		if !keep {
			break
		}
	}
	d := time.Since(start)
	fmt.Fprintf(out, "%d seeds, %d failed, %d transactions ordered, %.1f s (%.0f seeds/s)\n",
		n, failed, commits, d.Seconds(), float64(n)/d.Seconds())
	return int(code)
}

// print says everything needed to understand and replay a run.
func (r Result) print(out io.Writer) {
	fmt.Fprintf(out, "seed %d: %v, trace hash %016x, %.3f s simulated\n", r.Seed, r.Code, r.Hash, float64(r.Micros)/1e6)
	if r.Message != "" {
		fmt.Fprintf(out, "  %s\n", r.Message)
	}
	fmt.Fprintf(out, "  swarm %s\n  counts %+v\n", r.Swarm, r.Stats)
	if r.Stack != "" {
		fmt.Fprintln(out, r.Stack)
	}
	if r.Code != OK {
		fmt.Fprintf(out, "  replay: tutti sim -seed %d -trace\n", r.Seed)
	}
}

func parseRange(s string) (from, to uint64, err error) {
	a, b, ok := strings.Cut(s, "..")
	if ok {
		if from, err = strconv.ParseUint(a, 10, 64); err == nil {
			to, err = strconv.ParseUint(b, 10, 64)
		}
	}
	if !ok || err != nil || from > to || from == 0 {
		return 0, 0, fmt.Errorf("sim: seeds are given as A..B with 0 < A ≤ B, not %q", s)
	}
	return from, to, nil
}
