package regress

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/database/embedded"
	"github.com/tuttidb/tutti/test/cluster"
)

var flags struct {
	out, files, accept string
	score, control     bool
	parallel, three    bool
	variant            int
	limit              time.Duration
}

func init() {
	flag.StringVar(&flags.out, "out", "", "directory for outputs, differences, logs and causes.txt (default: a temporary one)")
	flag.StringVar(&flags.files, "files", "", "run these files only, separated by commas; files that others depend on are run if they are named")
	flag.StringVar(&flags.accept, "accept", "", "accept how the named files differ, for this reason")
	flag.IntVar(&flags.variant, "variant", 1, "with -accept: beside this many minus one accepted differences, as another that may come out")
	flag.BoolVar(&flags.score, "score", false, "write the score into README.md")
	flag.BoolVar(&flags.control, "control", false, "run a second plain server in the place of the cluster: what differs then is not Tutti's")
	flag.BoolVar(&flags.parallel, "parallel", false, "run the files of a group beside each other, as pg_regress does")
	flag.BoolVar(&flags.three, "three", false,
		"run the files of a group beside each other, in three databases at once, each at another node")
	flag.DurationVar(&flags.limit, "limit", 0, "for one file (default: regress 5m, isolation 2m)")
}

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	if err := cluster.Clean(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

var suites = map[string]func(Tree) (Suite, error){"regress": Regress, "isolation": Isolation}

// TestSuite is the command: make regress, make isolation.
func TestSuite(t *testing.T) {
	names := os.Getenv("TUTTI_REGRESS")
	if names == "" {
		t.Skip("TUTTI_REGRESS names no suite: regress, isolation or both with a comma")
	}
	build, err := embedded.Find(embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	tree, err := Prepare(t.Context(), build, os.Getenv("TUTTI_PG_SOURCE"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range strings.Split(names, ",") {
		t.Run(name, func(t *testing.T) {
			load := suites[name]
			if load == nil {
				t.Fatalf("TUTTI_REGRESS: there is no suite %q", name)
			}
			s, err := load(tree)
			if err != nil {
				t.Fatal(err)
			}
			runSuite(t, &s)
		})
	}
}

// few are files that need no others and must be equal.
var few = map[string][]string{"regress": {"boolean", "date"}, "isolation": {"deadlock-soft", "insert-conflict-do-nothing"}}

// TestFew runs a few files if the source is there, and looks whether the end of a member is
// noticed and mended.
func TestFew(t *testing.T) {
	if os.Getenv("TUTTI_REGRESS") != "" {
		t.Skip("TestSuite runs them")
	}
	build, err := embedded.Find(embedded.Options{NoDownload: true})
	if err != nil {
		t.Skip(err)
	}
	tree, err := Present(t.Context(), build, os.Getenv("TUTTI_PG_SOURCE"))
	if err != nil {
		t.Skipf("the suites cannot be run here: %v", err)
	}
	for name, files := range few {
		t.Run(name, func(t *testing.T) {
			s, err := suites[name](tree)
			if err != nil {
				t.Fatal(err)
			}
			r := newRun(t, &s, t.TempDir(), false)
			for _, file := range files {
				if res := r.file(file); res.Verdict != Equal || len(res.Notes) > 0 {
					t.Errorf("%s\n%s", &res, r.diffs[file])
				}
			}
			m := r.tutti.(*members)
			m.c.Kill(2)
			if res := r.file(files[0]); res.Verdict != Kills || len(res.Notes) != 1 || m.made != 1 {
				t.Errorf("after the end of node 2: %s", &res)
			}
			if notes := m.schemas(build, database, r.out); len(notes) > 0 {
				t.Errorf("%q", notes)
			}
		})
	}
}

// run is one suite being run.
type run struct {
	t       *testing.T
	s       *Suite
	out     string // directory
	plain   server
	tutti   server
	members *members // tutti, or what it is a database of; nil: a second plain server
	results []Result
	diffs   map[string]string
	outputs map[string]string // of the cluster
}

func newRun(t *testing.T, s *Suite, out string, control bool) *run {
	r := emptyRun(t, s, filepath.Join(out, s.Name))
	r.plain = startPlain(t, "plain")
	if control {
		r.tutti = startPlain(t, "tutti")
		return r
	}
	m := startMembers(t, r.out)
	if s.dependent {
		m.again = r.again
	}
	r.tutti, r.members = m, m
	return r
}

// emptyRun makes one that has no servers, and its directory.
func emptyRun(t *testing.T, s *Suite, out string) *run {
	for _, d := range []string{"plain", "tutti", "diff"} {
		if err := os.RemoveAll(filepath.Join(out, d)); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(out, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return &run{t: t, s: s, out: out, diffs: map[string]string{}, outputs: map[string]string{}}
}

func runSuite(t *testing.T, s *Suite) {
	out := flags.out
	if out == "" {
		out = t.TempDir()
	}
	if flags.limit > 0 {
		s.Limit = flags.limit
	}
	whole := s.Files
	if flags.files != "" {
		s.Files = strings.Split(flags.files, ",")
		s.Groups = restrict(s.Groups, s.Files)
	}
	if flags.score && (flags.files != "" || flags.control || flags.parallel || flags.three) {
		t.Fatal("a score is that of a whole suite through Tutti, file by file")
	}
	for _, f := range s.Files {
		if !slices.Contains(whole, f) {
			t.Fatalf("the suite %s has no file %q", s.Name, f)
		}
	}
	if flags.three {
		runThree(t, s, out)
		return
	}
	r := newRun(t, s, out, flags.control)
	if !flags.parallel {
		s.Groups = nil
		for _, file := range s.Files {
			s.Groups = append(s.Groups, []string{file})
		}
	}
	for _, group := range s.Groups {
		r.group(group)
	}
	r.finish()
}

// file runs one file in both arms, one after the other.
func (r *run) file(file string) Result { return r.group([]string{file})[0] }

// group runs files in both arms, one after the other; those of an arm beside each other.
func (r *run) group(files []string) (results []Result) {
	return together(slot{r, files})[0]
}

// slot are files of a run that are run beside each other.
type slot struct {
	*run
	files []string
}

// together runs files of several runs, which have the same servers, in both arms, one after the other; those of an arm
// beside each other.
func together(slots ...slot) (results [][]Result) {
	want := beside(slots, func(r *run) server { return r.plain })
	got := beside(slots, func(r *run) server { return r.tutti })
	notes, ended := slots[0].tutti.look()
	for i, s := range slots {
		results = append(results, nil)
		for j, file := range s.files {
			results[i] = append(results[i], s.judge(file, want[i][j], got[i][j], notes, ended))
			notes = nil // they are told once
		}
	}
	return results
}

// beside runs files in one arm beside each other.
func beside(slots []slot, of func(*run) server) (outputs [][]Output) {
	var all sync.WaitGroup
	var mu sync.Mutex
	var failed []error
	for i, s := range slots {
		outputs = append(outputs, make([]Output, len(s.files)))
		for j, file := range s.files {
			all.Go(func() {
				out, err := s.s.Run(s.t.Context(), of(s.run).arm(), file)
				mu.Lock()
				defer mu.Unlock()
				outputs[i][j], failed = out, append(failed, err)
			})
		}
	}
	all.Wait()
	if err := errors.Join(failed...); err != nil {
		slots[0].t.Fatal(err)
	}
	for i, s := range slots {
		for j, file := range s.files {
			s.keep(of(s.run), file, outputs[i][j])
		}
	}
	return outputs
}

// judge compares what a file printed in both arms.
func (r *run) judge(file string, want, got Output, notes []string, ended bool) Result {
	res := Result{File: file, Plain: want.Took, Tutti: got.Took, Notes: notes}
	diff, err := Diff(want.Text, got.Text, 3)
	if err != nil {
		r.t.Fatal(err)
	}
	accepted, err := ReadAccepted("accepted", r.s.Name, file)
	if err != nil {
		r.t.Fatal(err)
	}
	covered, err := accepted.Covers(want.Text, got.Text)
	if err != nil {
		r.t.Fatal(err)
	}
	res.Lines = changedLines(diff)
	if !r.s.dependent {
		for _, s := range []server{r.plain, r.tutti} {
			if err := sweep(s.url()); err != nil {
				res.Notes = append(res.Notes, fmt.Sprintf("sweeping %s: %v", s.arm().Name, err))
			}
		}
	}
	switch {
	case want.Hang:
		res.Verdict = NoAnswer
	case ended:
		res.Verdict = Kills
	case got.Hang:
		res.Verdict = Hangs
	case diff == "":
		res.Verdict = Equal
	case covered:
		res.Verdict = Agreed
	default:
		res.Verdict = Differs
		if flags.accept != "" && flags.files != "" {
			if err := WriteAccepted("accepted", r.s.Name, file, flags.variant, flags.accept, want.Text, got.Text); err != nil {
				r.t.Error(err)
			}
		}
	}
	if diff != "" {
		r.diffs[file] = diff
		r.write(filepath.Join("diff", file+".diff"), diff)
	}
	r.results = append(r.results, res)
	fmt.Println(time.Now().Format("15:04:05"), r.tutti.arm().Database, &res)
	return res
}

// keep writes down what a file printed in one arm; what it has left running is ended.
func (r *run) keep(s server, file string, o Output) {
	if s.arm() == r.tutti.arm() {
		r.outputs[file] = o.Text
	}
	r.write(filepath.Join(s.arm().Name, file+".out"), o.Text)
	if o.Hang {
		if err := endSessions(s.url()); err != nil {
			r.t.Logf("%s: sessions of %s could not be ended: %v", s.arm().Name, file, err)
		}
	}
}

func (r *run) write(name, text string) {
	if err := os.WriteFile(filepath.Join(r.out, name), []byte(text), 0o644); err != nil {
		r.t.Fatal(err)
	}
}

// again runs the files that were run before, except those that ended members, on a new
// cluster, so that what later files need is there.
func (r *run) again() (n int) {
	for _, res := range r.results {
		if res.Verdict == Kills || res.Verdict == Hangs {
			continue
		}
		if _, err := r.s.Run(r.t.Context(), r.tutti.arm(), res.File); err != nil {
			r.t.Fatal(err)
		}
		n++
	}
	return n
}

// finish compares the members once more, writes what was found, and judges.
func (r *run) finish() {
	r.write("causes.txt", causesText(Causes(r.diffs)))
	r.write("losses.txt", lossesText(Losses(r.outputs)))
	verdict := "Compared with: plain PostgreSQL again."
	if m := r.members; m != nil {
		notes := m.schemas(r.s.tree.Programs, cmp.Or(r.tutti.arm().Database, database), r.out)
		for _, n := range notes {
			r.t.Error(n)
		}
		verdict = "Afterwards the members held the same tables, definitions and roles."
		if len(notes) > 0 || len(m.unity) > 0 {
			verdict = "Afterwards the members DIFFERED."
		}
	}
	bad := 0
	for _, res := range r.results {
		if !res.Good() {
			bad++
		}
	}
	fmt.Printf("%s: %s. %s Everything is in %s\n", r.s.Name, Summary(r.results), verdict, r.out)
	if flags.score {
		r.score(verdict)
	}
	if bad > 0 {
		r.t.Errorf("%d of %d files are not as they should be", bad, len(r.results))
	}
}

func (r *run) score(verdict string) {
	page, err := os.ReadFile("README.md")
	if err != nil {
		r.t.Fatal(err)
	}
	title := fmt.Sprintf("%s, PostgreSQL %s, %s", time.Now().Format(time.DateOnly), r.s.tree.Programs.Version, filepath.Base(r.s.tree.Source))
	text, err := splice(string(page), r.s.Name, scoreTable(title, r.results, verdict))
	if err == nil {
		err = os.WriteFile("README.md", []byte(text), 0o644)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}
