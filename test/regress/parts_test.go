package regress

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	wantText = "SELECT 1;\n one \n-----\n   1\n(1 row)\n\nSELECT 2;\n"
	gotText  = "SELECT 1;\nERROR:  relation \"t1\" has no key\n\nSELECT 2;\n"
)

func difference(t *testing.T, plain, tutti string, context int) string {
	t.Helper()
	d, err := Diff(plain, tutti, context)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestDiff(t *testing.T) {
	if d := difference(t, wantText, wantText, 3); d != "" {
		t.Errorf("equal texts differ:\n%s", d)
	}
	d := difference(t, wantText, gotText, 0)
	if n := changedLines(d); n != 5 {
		t.Errorf("%d lines changed, not 5:\n%s", n, d)
	}
	want := "@@\n- one \n------\n-   1\n-(1 row)\n+ERROR:  relation \"t1\" has no key\n"
	if got := stable(d); got != want {
		t.Errorf("the difference is\n%q, not\n%q", got, want)
	}
	for what, text := range map[string]string{
		"a missing line break at the end": strings.TrimSuffix(wantText, "\n"),
		"trailing space":                  strings.Replace(wantText, "SELECT 2;", "SELECT 2; ", 1),
		"case":                            strings.ToLower(wantText),
		"order of lines":                  strings.Replace(wantText, "SELECT 1;\n one \n", " one \nSELECT 1;\n", 1),
		"bytes that are no text":          wantText + "\xff\x00",
		"nothing at all":                  "",
	} {
		if difference(t, wantText, text, 3) == "" {
			t.Errorf("not seen: %s", what)
		}
	}
}

func TestNormalise(t *testing.T) {
	plain, tutti := Arm{Dir: "/tmp/p12/plain"}, Arm{Dir: "/tmp/t3/tutti"}
	a := normalise(&plain, `could not open "/tmp/p12/plain/results/x" 12`)
	b := normalise(&tutti, `could not open "/tmp/t3/tutti/results/x" 12`)
	if a != b || !strings.Contains(a, " 12") {
		t.Errorf("%q, %q", a, b)
	}
	c := normalise(&tutti, `the transaction's rows cannot be carried out at node node1: 22P02`)
	d := normalise(&tutti, `the transaction's rows cannot be carried out at node node3: 22P02`)
	if e := normalise(&tutti, `of node node3 committed first`); c != d || !strings.Contains(e, "node3") {
		t.Errorf("%q, %q, %q", c, d, e)
	}
}

func TestAccepted(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "accepted")
	covers := func(plain, tutti string) bool {
		t.Helper()
		a, err := ReadAccepted(dir, "regress", "bit")
		if err != nil {
			t.Fatal(err)
		}
		ok, err := a.Covers(plain, tutti)
		if err != nil {
			t.Fatal(err)
		}
		return ok
	}
	if covers(wantText, gotText) {
		t.Error("accepted without a file")
	}
	if err := WriteAccepted(dir, "regress", "bit", 1, "Tables need a key.\nSee LIMITS.", wantText, gotText); err != nil {
		t.Fatal(err)
	}
	if a, _ := ReadAccepted(dir, "regress", "bit"); a.Reason != "Tables need a key. See LIMITS." {
		t.Errorf("the reason is %q", a.Reason)
	}
	if !covers(wantText, gotText) {
		t.Error("the difference just accepted is not")
	}
	if !covers("SELECT 0;\n"+wantText, "SELECT 0;\n"+gotText) {
		t.Error("line numbers matter")
	}
	for what, text := range map[string]string{
		"one character more": strings.Replace(gotText, "key", "keys", 1),
		"one line more":      gotText + "ERROR:  more\n",
		"no difference":      wantText,
		"one line less":      strings.Replace(gotText, "SELECT 2;\n", "", 1),
	} {
		if covers(wantText, text) {
			t.Errorf("accepted although there is %s", what)
		}
	}
	other := gotText + "SELECT 4;\n"
	if err := WriteAccepted(dir, "regress", "bit", 2, "The other may be first.", wantText, other); err != nil {
		t.Fatal(err)
	}
	if !covers(wantText, gotText) || !covers(wantText, other) || covers(wantText, other+other) {
		t.Error("of two accepted differences not each, or more, is accepted")
	}
}

// TestLoose: what is another one in each run does not matter in what Tutti adds, and in nothing else.
func TestLoose(t *testing.T) {
	one := "@@\n-16413 | x\n+ oid   |         name\n+-------+----------\n" +
		"+ 16413 | capture_8d982601315e3e99\n+ 16414 | capture_acb244ba3d93502a\n" +
		"+ 16415 | bulk_acb244ba3d93502a\n+(3 rows)\n+ at (Sat Nov 21 23:38:52.915677 2026) 123\n" +
		"+ t | !!tutti_b\n+ t | a\n+ t | !!tutti\n+ t | R\n@@\n+ t | O\n@@\n" +
		"+PL/pgSQL function tutti.ddl() line 7 at PERFORM\n"
	other := "@@\n-16413 | x\n+ oid |     name\n+----+-----\n" +
		"+ 17413 | capture_0000000000000000\n+(1 row)\n+ at (Sun Nov  2 03:38:52.1 2027) 123\n" +
		"+ t | !!tutti\n+ t | !!tutti_b\n+ t | a\n@@\n+ t | O\n+ t | R\n" +
		"+PL/pgSQL function tutti.ddl() line 12 at PERFORM\n"
	if loose(one) != loose(other) {
		t.Errorf("%q\n%q", loose(one), loose(other))
	}
	for _, more := range []string{strings.Replace(one, "-16413", "-16414", 1), strings.Replace(one, " 123", " 124", 1),
		one + "+ more\n", one + "+ t | !!tutti_c\n",
		strings.Replace(one, "t | R", "t | D", 1),
		strings.Replace(one, "at PERFORM", "at RAISE", 1)} {
		if loose(more) == loose(one) {
			t.Errorf("%q is like %q", more, one)
		}
	}
	if loose("@@\n+ERROR\n@@\n+ERROR\n") == loose("@@\n+ERROR\n") {
		t.Error("what is told at two places is like what is told at one")
	}
}

func TestAcceptedRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"@@\n-a\n+b\n":         "no reason",
		"#\n@@\n-a\n+b\n":      "no reason",
		"# why\n":              "must follow",
		"# why\n-a\n+b\n":      "must follow",
		"# why\n@@ -1 +1 @@\n": "must follow",
		"# why\n@@\n" + strings.Repeat("-a\n", maxAccepted): "more than",
	} {
		if _, _, err := parseAccepted(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %v, not %q", text, err, want)
		}
	}
	if err := WriteAccepted(t.TempDir(), "regress", "x", 1, " ", wantText, gotText); err == nil {
		t.Error("written without a reason")
	}
}

var variantSuffix = regexp.MustCompile(`\.[0-9]+$`)

// TestAcceptedDirectory reads every accepted difference of the repository.
func TestAcceptedDirectory(t *testing.T) {
	entries, err := filepath.Glob("accepted/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range entries {
		suite, rest, _ := strings.Cut(filepath.Base(path), ".")
		file, ok := strings.CutSuffix(rest, ".diff")
		file = variantSuffix.ReplaceAllString(file, "")
		if suites[suite] == nil || !ok {
			t.Errorf("%s: the name is not suite.file.diff", path)
			continue
		}
		if _, err := ReadAccepted("accepted", suite, file); err != nil {
			t.Error(err)
		}
	}
}

func TestCauses(t *testing.T) {
	diff := func(text string) string { return difference(t, "a\n", "a\n"+text, 3) }
	got := Causes(map[string]string{
		"x": diff("ERROR:  table public.t1 has no key\nERROR:  no \"c\"\nERROR:  table public.t2 has no key\n"),
		"y": diff("ERROR:  table public.t3 has no key\n"),
		"z": diff("something\n"),
		"e": "",
	})
	want := []Cause{
		{"ERROR:  table … has no key", []string{"x", "y"}, []string{"x", "y"}, 3},
		{silent, []string{"z"}, []string{"z"}, 1},
		{"ERROR:  no …", []string{"x"}, nil, 1},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	if text := causesText(got); !strings.Contains(text, "2 files, first in 2,     3 lines: ERROR:  table … has no key\n      x y\n") {
		t.Errorf("%s", text)
	}
}

func TestSplice(t *testing.T) {
	page := "head\n<!-- regress: begin -->\nold\n<!-- regress: end -->\n<!-- isolation: begin -->\n<!-- isolation: end -->\n"
	table := scoreTable("today", []Result{{File: "bit", Verdict: Differs, Lines: 3}, {File: "int2", Verdict: Equal}}, "All equal.")
	got, err := splice(page, "regress", table)
	if err != nil {
		t.Fatal(err)
	}
	want := "head\n<!-- regress: begin -->\ntoday: 2 files, 1 equal, 1 differs. All equal.\n\n| file | result | lines of difference |\n|---|---|---|\n" +
		"| bit | differs | 3 |\n| int2 | equal |  |\n<!-- regress: end -->\n<!-- isolation: begin -->\n<!-- isolation: end -->\n"
	if got != want {
		t.Errorf("%s", got)
	}
	if _, err := splice("no marks", "regress", table); err == nil {
		t.Error("a page without marks is taken")
	}
	b, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for suite := range suites {
		if _, err := splice(string(b), suite, ""); err != nil {
			t.Errorf("README.md: %v", err)
		}
	}
}

func TestSchedule(t *testing.T) {
	path := filepath.Join(t.TempDir(), "schedule")
	if err := os.WriteFile(path, []byte("# test: none\ntest: a\n\nignore: c\ntest: b c\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	got, err := schedule(path)
	if err != nil || !slices.EqualFunc(got, [][]string{{"a"}, {"b", "c"}}, slices.Equal) {
		t.Errorf("%v %v", got, err)
	}
	if some := restrict(got, []string{"c", "a"}); !slices.EqualFunc(some, [][]string{{"a"}, {"c"}}, slices.Equal) {
		t.Errorf("of these a and c: %v", some)
	}
	if some := restrict(got, []string{"b"}); !slices.EqualFunc(some, [][]string{{"b"}}, slices.Equal) {
		t.Errorf("of these b: %v", some)
	}
}

func TestLosses(t *testing.T) {
	got := lossesText(Losses(map[string]string{
		"a": "x\nERROR:  could not serialize access due to concurrent update\n" +
			"DETAIL:  A lock on table \"x\": transaction 3.\nHINT:  Retry.\nERROR:  division by zero\n",
		"b": "ERROR:  could not serialize access due to concurrent update\n" +
			"DETAIL:  A lock on table \"y\": transaction 4.\nCREATE TABLE\n" +
			"ERROR:  could not serialize access due to read/write dependencies among transactions\n",
	}))
	want := "   2 times: A lock on table …: transaction N.\n" +
		"   1 times: could not serialize access due to read/write dependencies among transactions\n   3 times 40001\n"
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// program is a suite of one file, run by a shell.
func program(t *testing.T, script string) (*Suite, *Arm) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "x.sql"), []byte(script), 0o644); err != nil {
		t.Fatal(err)
	}
	return &Suite{Name: "regress", Limit: 20 * time.Second, inputs: filepath.Join(dir, "%s.sql"), argv: []string{"/bin/sh"}}, &Arm{Host: "/nowhere", Port: 5432, Dir: dir}
}

func TestRun(t *testing.T) {
	s, a := program(t, `echo "$PGAPPNAME at $PGHOST:$PGPORT in $PG_ABS_BUILDDIR"; echo "home ${TUTTI_REGRESS_LEAK-unset}" >&2; exit 3`)
	t.Setenv("TUTTI_REGRESS_LEAK", "1")
	o, err := s.Run(t.Context(), a, "x")
	if err != nil {
		t.Fatal(err)
	}
	if want := "pg_regress/x at /nowhere:5432 in @builddir@\nhome unset\n(exit status 3)\n"; o.Text != want || o.Hang {
		t.Errorf("%q %v, not %q", o.Text, o.Hang, want)
	}
}

// TestRunEnds: a file that hangs is ended with all it started (X2).
func TestRunEnds(t *testing.T) {
	s, a := program(t, "echo begun; (sleep 60; touch "+filepath.Join(t.TempDir(), "late")+") & sleep 60")
	s.Limit = 5 * time.Second
	o, err := s.Run(t.Context(), a, "x")
	if err != nil {
		t.Fatal(err)
	}
	if !o.Hang || o.Text != "begun\n" || o.Took > 30*time.Second {
		t.Errorf("%+v", o)
	}
}
