package sim

import (
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
)

// Main is `tutti sim`: it runs the seeds args ask for, reports to out, and returns the exit
// code, which is that of the smallest failing seed. Bad arguments give 64. With several
// seeds it runs its own executable again, with the arguments "sim --worker".
func Main(args []string, out io.Writer) int {
	const usage = 64
	f := flag.NewFlagSet("sim", flag.ContinueOnError)
	f.SetOutput(out)
	seed := f.Uint64("seed", 0, "run this one seed and say all about it")
	seeds := f.String("seeds", "1..100", "run the seeds from A to B, `A..B`")
	jobs := f.Int("jobs", runtime.NumCPU(), "with -seeds: processes that run them")
	members := f.Int("members", 0, "members of the cluster; 0: 3 to 5, as the seed wants")
	millis := f.Int64("millis", safetyMicros/1000, "simulated milliseconds with faults")
	trace := f.Bool("trace", false, "with -seed: print every observable step")
	keep := f.Bool("keep-going", false, "run the remaining seeds after one failed")
	plant := f.String("plant", "", "build in the bug with this name; most need a binary built with the tag planted")
	black := f.Bool("black-box", false, "at the end ask only the judge that knows no ordinals")
	child := f.Bool("worker", false, "read seeds from the standard input (for the program's own use)")
	if err := f.Parse(args); err != nil {
		return usage
	}
	o := Options{Members: *members, SafetyMicros: *millis * 1000, Planted: *plant, BlackBox: *black}
	from, to, err := parseRange(*seeds)
	if err == nil {
		err = o.validate()
	}
	if err == nil && *jobs < 1 {
		err = fmt.Errorf("sim: %d jobs cannot run anything", *jobs)
	}
	if err != nil {
		fmt.Fprintln(out, err)
		return usage
	}
	switch {
	case *child:
		err = serve(o, os.Stdin, out)
	case *seed != 0:
		if *trace {
			o.Trace = out
		}
		r := Run(*seed, o)
		r.print(out, o)
		return int(r.Code)
	default:
		var code Code
		if code, err = runSeeds(from, to, o, *jobs, *keep, out); err == nil {
			return int(code)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return usage
	}
	return 0
}

func runSeeds(from, to uint64, o Options, jobs int, keep bool, out io.Writer) (Code, error) {
	start := time.Now()
	p, err := runPool(from, to, o, jobs, keep)
	if err != nil {
		return OK, err
	}
	code := OK
	for i, r := range p.failed {
		if i == 0 {
			code = r.Code
		}
		r.print(out, o)
	}
	d := time.Since(start).Seconds()
	fmt.Fprintf(out, "%d seeds, %d failed, %d transactions ordered, %.1f s (%.0f seeds/s)\n",
		p.seeds, len(p.failed), p.sum.Committed, d, float64(p.seeds)/d)
	return code, nil
}

// print says everything needed to understand and replay a run.
func (r Result) print(out io.Writer, o Options) {
	fmt.Fprintf(out, "seed %d: %v, trace hash %016x, %.3f s simulated\n", r.Seed, r.Code, r.Hash, float64(r.Micros)/1e6)
	if r.Message != "" {
		fmt.Fprintf(out, "  %s\n", r.Message)
	}
	fmt.Fprintf(out, "  swarm %s\n  counts %+v\n", r.Swarm, r.Stats)
	if r.Stack != "" {
		fmt.Fprintln(out, r.Stack)
	}
	if o.Members = r.Members; r.Code != OK {
		fmt.Fprintf(out, "  replay%s: tutti sim --seed %d %s --trace\n", revision(), r.Seed,
			strings.Join(o.flags(), " "))
	}
}

// flags says how the command line names the options.
func (o Options) flags() []string {
	fs := []string{"--members", strconv.Itoa(o.Members), "--millis", strconv.FormatInt(o.SafetyMicros/1000, 10)}
	if o.Planted != "" {
		fs = append(fs, "--plant", o.Planted)
	}
	if o.BlackBox {
		fs = append(fs, "--black-box")
	}
	return fs
}

// revision names the commit the binary was built from, if it is known: a seed means the
// same only there.
func revision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return " at " + s.Value
		}
	}
	return ""
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
