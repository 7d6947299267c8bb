package drivers

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/database/embedded"
	"github.com/tuttidb/tutti/test/cluster"
)

var flags struct {
	out, parts             string
	score, control, resume bool
	begin                  time.Duration
}

func init() {
	flag.StringVar(&flags.out, "out", "", "directory for outputs, differences and logs (default: a temporary one)")
	flag.StringVar(&flags.parts, "parts", "", "run these packages, files or labels of the suite only, separated by "+
		"commas; the list of what is accepted is then not complained about")
	flag.BoolVar(&flags.score, "score", false, "write the score into README.md")
	flag.BoolVar(&flags.resume, "resume", false, "go on where an earlier run into the same -out has stopped: parts "+
		"whose outcomes are kept there are not run again")
	flag.DurationVar(&flags.begin, "begin", 0, "begin no further part after this time; 0 is no limit. -resume goes on")
	flag.BoolVar(&flags.control, "control", false,
		"run a second plain server in the place of the cluster: what differs then is not Tutti's")
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

// suites are all there are, in the order in which they run.
func suites() []Suite {
	return []Suite{pgxSuite(), pqSuite(), psycopgSuite(), psycopg3Suite(), pgjdbcSuite(), nodeSuite(), asyncpgSuite(),
		psycopg2Suite(), sqlalchemySuite(), djangoSuite()}
}

// TestSuite is the command: make drivers.
func TestSuite(t *testing.T) {
	wanted := os.Getenv("TUTTI_DRIVERS")
	if wanted == "" {
		t.Skip("TUTTI_DRIVERS names no suite: one of them, several with commas, or all")
	}
	cache, err := embedded.DefaultCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	cache = filepath.Join(cache, "drivers")
	if err := os.MkdirAll(cache, 0o755); err != nil {
		t.Fatal(err)
	}
	names := strings.Split(wanted, ",")
	for _, s := range suites() {
		at := slices.Index(names, s.Name)
		if wanted == "all" || at >= 0 {
			t.Run(s.Name, func(t *testing.T) { runSuite(t, &s, cache) })
		}
		if at >= 0 {
			names = slices.Delete(names, at, at+1)
		}
	}
	if wanted != "all" && len(names) > 0 {
		t.Errorf("TUTTI_DRIVERS: there is no suite %q", names)
	}
}

func runSuite(t *testing.T, s *Suite, cache string) {
	accepted, err := ReadAccepted("accepted", s.Name)
	if err != nil {
		t.Fatal(err)
	}
	if flags.parts != "" {
		if flags.score {
			t.Fatal("a score is that of a whole suite")
		}
		s.Parts = strings.Split(flags.parts, ",")
	}
	dir, err := s.fetch(t.Context(), cache)
	if err != nil {
		t.Fatalf("%s cannot be fetched: %v", s.Name, err)
	}
	out := filepath.Join(flags.out, s.Name)
	if flags.out == "" {
		out = t.TempDir()
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		t.Fatal(err)
	}
	whole := gather(t, s, dir, out, accepted)
	found := whole.Differences
	var text strings.Builder
	for _, d := range found {
		fmt.Fprintln(&text, d)
	}
	if err := os.WriteFile(filepath.Join(out, "differences.txt"), []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	if flags.control {
		t.Logf("plain PostgreSQL against itself: %d differences\n%s", len(found), &text)
		return
	}
	fresh, stale := accepted.Judge(found)
	for _, d := range fresh {
		t.Errorf("not accepted: %s", d)
	}
	for _, d := range stale {
		if flags.parts != "" {
			break
		}
		t.Errorf("accepted, but did not occur: %s", d)
	}
	t.Logf("plain: %v; tutti: %v; %d differences, %d of them not accepted. Everything is in %s", whole.Plain,
		whole.Tutti, len(found), len(fresh), out)
	if flags.score {
		writeScore(t, s, &whole, len(fresh))
	}
}

// gather runs the pieces of a suite, those aside of which an earlier run has kept what became of them.
func gather(t *testing.T, s *Suite, dir, out string, accepted Accepted) (whole Piece) {
	whole = Piece{Plain: Outcomes{}, Tutti: Outcomes{}}
	var other, alone server
	var fresh []string // files of this run
	began, left := time.Now(), 0
	for _, parts := range s.pieces() {
		file := filepath.Join(out, pieceFile(parts))
		if p, err := readPiece(file); flags.resume && err == nil {
			whole.add(p)
			continue
		}
		if flags.begin > 0 && time.Since(began) > flags.begin {
			left++
			continue
		}
		if other == nil {
			other, alone = startArms(t, s)
		}
		p := runPiece(t, s, alone, other, dir, out, parts, accepted)
		whole.add(p)
		if err := p.write(file); err != nil {
			t.Fatal(err)
		}
		fresh = append(fresh, file)
	}
	if other != nil {
		for _, n := range other.look(t, out) {
			t.Error(n)
			whole.Unlike = true
		}
	}
	if whole.Unlike { // who knows since when
		for _, f := range fresh {
			if err := os.Remove(f); err != nil {
				t.Error(err)
			}
		}
	}
	if left > 0 {
		t.Fatalf("%d parts are left: -resume runs them", left)
	}
	return whole
}

// startArms starts both arms and prepares them.
func startArms(t *testing.T, s *Suite) (other, alone server) {
	if flags.control {
		other = startPlain(t, "control")
	} else {
		other = startMembers(t)
	}
	alone = startPlain(t, "plain")
	prepareArm(t, s, alone)
	prepareArm(t, s, other)
	return other, alone
}

// runPiece runs parts in both arms, twice if they differ in what is not accepted (D3).
func runPiece(t *testing.T, s *Suite, alone, other server, dir, out string, parts []string,
	accepted Accepted) (p Piece) {
	run := func() (Outcomes, Outcomes) {
		return runArm(t, s, alone, dir, out, parts), runArm(t, s, other, dir, out, parts)
	}
	p.Plain, p.Tutti = run()
	p.Differences = Compare(p.Plain, p.Tutti)
	if fresh, _ := accepted.Judge(p.Differences); len(fresh) > 0 && !flags.control {
		again := Compare(run())
		for _, d := range fresh {
			if !slices.Contains(again, d) {
				t.Logf("differed in one of two runs: %s", d)
				p.Differences = slices.DeleteFunc(p.Differences, func(f Difference) bool { return f == d })
			}
		}
	}
	return p
}

// prepareArm prepares one arm as the suite asks.
func prepareArm(t *testing.T, s *Suite, to server) {
	a := to.arm()
	if err := execute(a.URL(role, ""), s.Setup...); err != nil {
		t.Fatalf("%s: %v", a.Name, err)
	}
	if len(s.Logins) > 0 {
		to.logins(t, s.Logins)
	}
}

// runArm runs the suite in one arm.
func runArm(t *testing.T, s *Suite, to server, dir, out string, parts []string) Outcomes {
	a := to.arm()
	began := time.Now()
	o, text, err := s.Run(t.Context(), a, dir, parts)
	if werr := os.WriteFile(filepath.Join(out, a.Name+strings.TrimSuffix(pieceFile(parts), ".json")+".out"), text,
		0o644); werr != nil {
		t.Error(werr)
	}
	if err != nil {
		t.Fatalf("%s: %v", a.Name, err)
	}
	t.Logf("%s: %.60s: %v in %.0f s", a.Name, strings.Join(parts, " "), o, time.Since(began).Seconds())
	return o
}

func writeScore(t *testing.T, s *Suite, whole *Piece, fresh int) {
	build, err := embedded.Find(embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	members := "alike"
	if whole.Unlike {
		members = "DIFFER"
	}
	row := fmt.Sprintf("| %s | %s | %v | %v | %d | %d | %s | %s, PostgreSQL %s |\n", s.Name, s.What, whole.Plain,
		whole.Tutti, len(whole.Differences), fresh, members, time.Now().Format(time.DateOnly), build.Version)
	page, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	text, err := splice(string(page), s.Name, row)
	if err == nil {
		err = os.WriteFile("README.md", []byte(text), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}
