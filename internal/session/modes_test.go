package session_test

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/session/plan"
	"github.com/tuttidb/tutti/internal/writeset"
)

// TestOracleModes plays the scripts of testdata once more with their prepared statements sent otherwise: parsed without
// a name where they are bound, and as Queries with literals. A client must be told what PostgreSQL tells.
func TestOracleModes(t *testing.T) {
	plain, tutti := newStage(t, false), newStage(t, true)
	for mode, sent := range map[string]func(string) (string, int){"unnamed": unnamedScript, "literals": literalScript} {
		t.Run(mode, func(t *testing.T) {
			changes, blocks := 0, 0
			for _, name := range []string{"block", "direct", "driver", "extended", "simple", "unseen"} {
				file := filepath.Join("testdata", name+".txt")
				datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
					script, n := sent(d.Input)
					if n == 0 || strings.Contains(d.Input, "# differs:") {
						return d.Expected
					}
					changes += n
					want := plain.play(t, script, nil)
					if strings.Contains(want, waitMax.String()) {
						t.Errorf("%s: PostgreSQL does not answer:\n%s", d.Pos, script)
					}
					for _, host := range []*fakeHost{{}, {lose: true}} {
						got := tutti.play(t, script, host)
						blocks += host.blocks
						if got != want && (!host.lose || !strings.Contains(script, "BEGIN")) {
							t.Errorf("%s: differs from PostgreSQL:%s\nin\n%s", d.Pos, difference(want, got), script)
						}
					}
					return d.Expected
				})
			}
			if changes < 100 || blocks < 8 {
				t.Errorf("only %d statements were sent otherwise, and %d blocks would be unseen", changes, blocks)
			}
		})
	}
}

// unnamedScript has each Bind of a statement with a name parse the statement without one. It says how often.
func unnamedScript(script string) (out string, n int) {
	return withStatements(script, func(lines []string, statements map[string][]string) (instead string, used int) {
		word, rest, _ := strings.Cut(lines[0], " ")
		portal, rest, _ := strings.Cut(rest, "|")
		name, values, bound := strings.Cut(rest, "|")
		of := statements[name]
		if word != "B" || name == "" || of == nil {
			return "", 0
		}
		if instead = "P |" + strings.Join(of, "|") + "\nB " + portal + "|"; bound {
			instead += "|" + values
		}
		return instead, 1
	})
}

// literalScript has each Bind of a statement with a name, with the Execute and Sync behind it, be a Query.
func literalScript(script string) (out string, n int) {
	out, n = withStatements(script, func(lines []string, statements map[string][]string) (instead string, used int) {
		rest, binds := strings.CutPrefix(lines[0], "B |")
		values := strings.Split(rest, "|")
		of := statements[values[0]]
		if !binds || values[0] == "" || of == nil || len(of) > 1 {
			return "", 0
		}
		if used = 1; len(lines) > 3 && lines[1] == "D P " {
			used = 2
		}
		if len(lines) < used+2 || lines[used] != "E |0" && lines[used] != "E |" || lines[used+1] != "S" {
			return "", 0
		}
		sql := of[0]
		for i := len(values) - 1; i > 0; i-- {
			sql = strings.ReplaceAll(sql, "$"+string(rune('0'+i)), literalOf(values[i]))
		}
		return "Q " + sql, used + 2
	})
	return parsedBefore.ReplaceAllString(out, "$1\nS\nQ "), n
}

// parsedBefore finds a Query behind a Parse. If that fails, everything up to a Sync is skipped.
var parsedBefore = regexp.MustCompile(`(?m)^(P .*)\nQ `)

func literalOf(value string) string {
	switch {
	case value == `\N`:
		return "NULL"
	case value != "" && strings.Trim(value, "0123456789") == "":
		return value
	}
	return "'" + strings.ReplaceAll(value, "'", "''") + "'"
}

// withStatements rewrites the lines of a script; f gets the next ones, with the statements that have names, and gives
// what stands instead of so many of them.
func withStatements(script string, f func([]string, map[string][]string) (string, int)) (out string, n int) {
	statements := map[string][]string{}
	lines := strings.Split(script, "\n")
	for i := 0; i < len(lines); {
		if rest, ok := strings.CutPrefix(lines[i], "P "); ok {
			parts := strings.Split(rest, "|")
			statements[parts[0]] = parts[1:]
		}
		instead, used := f(lines[i:], statements)
		if used == 0 {
			instead, used = lines[i], 1
		} else {
			n++
		}
		out += instead + "\n"
		i += used
	}
	return out, n
}

// TestModes: however a statement comes, it is carried out in the same way.
func TestModes(t *testing.T) {
	s, l := unseeing(t)
	sent := map[string]func(string) (string, int){
		"prepared": func(script string) (string, int) { return script, 1 },
		"unnamed":  unnamedScript, "literals": literalScript,
	}
	const statements = "P add|UPDATE counters SET n = n + $1 WHERE id = $2\n" +
		"P put|UPDATE counters SET n = $1 WHERE id = $2\n" +
		"P log|INSERT INTO history (id, n) VALUES ($1, $2)\nP see|SELECT n FROM counters WHERE id = $1\n"
	l.do("Q CREATE TABLE history (id int, n int)")
	l.do(statements[strings.Index(statements, "P log"):] + "S")
	var seen string
	l.host.onBlind = func(sub session.Submission) (session.Decision, bool) {
		for _, r := range sub.Writeset.Rows {
			seen += map[writeset.Op]string{writeset.OpSet: " set", writeset.OpPut: " insert"}[r.Op]
		}
		return session.Decision{Commit: true}, true
	}
	noted := l.noted(s)
	for _, c := range []struct{ name, lines, want string }{
		{"alone", "B |put|10|1\nE |0\nS", " set"},
		{"alone, described", "B |put|10|1\nD P \nE |0\nS", " set"},
		{"a negative number", "B |put|-10|1\nE |0\nS", " set"},
		{"an addition alone", "B |add|-5|1\nE |0\nS", " set"},
		{"a block", "Q BEGIN\nB |put|10|1\nE |0\nS\nB |add|-5|2\nE |0\nS\nB |log|7|-5\nE |0\nS\nQ COMMIT",
			" set set insert"},
		{"a block that reads", "Q BEGIN\nB |add|-5|2\nE |0\nS\nB |see|2\nD P \nE |0\nS\nB |see|1\nE |0\nS\n" +
			"B |log|7|-5\nE |0\nS\nQ COMMIT", " set insert"},
	} {
		told := map[string]string{}
		for mode, f := range sent {
			script, n := f(statements + c.lines)
			if n == 0 {
				t.Fatalf("%s: nothing is sent otherwise in\n%s", c.name, script)
			}
			script = strings.TrimPrefix(strings.TrimSuffix(script, "\n"), statements)
			if mode == "literals" { // TestOracleModes writes such a value as a string
				script = strings.NewReplacer("'-5'", "-5", "'-10'", "-10").Replace(script)
			}
			for range 6 {
				seen = ""
				told[mode] = l.do(script)
			}
			if seen != c.want {
				t.Errorf("%s, %s: carried out unseen are%s, want%s; submitted %s; the client got\n%s",
					c.name, mode, seen, c.want, noted(), told[mode])
			}
			told[mode] = strings.ReplaceAll(told[mode], "ParseComplete\n", "")
		}
		for mode := range sent {
			if mode != "literals" && told[mode] != told["prepared"] {
				t.Errorf("%s: %s is told\n%s\nand prepared\n%s", c.name, mode, told[mode], told["prepared"])
			}
		}
	}
}

// TestUnnamedGoesOn: a client that parses without a name once, and then uses the statement again and again, has it
// whatever the session has answered itself.
func TestUnnamedGoesOn(t *testing.T) {
	s, l := unseeing(t)
	blind := 0
	l.host.onBlind = func(session.Submission) (session.Decision, bool) {
		blind++
		return session.Decision{Commit: true}, true
	}
	const parse = "P |UPDATE counters SET n = n + $1 WHERE id = $2\n"
	const blindly = parse + "B ||0|1\nE |0\nS\n"
	for range 3 {
		l.do(parse + "B ||0|1\nE |0\nS")
	}
	before := s.counter(t)
	blind = 0
	l.want(parse+"B ||7|1\nE |0\nS", "ParseComplete\nBindComplete\nCommandComplete UPDATE 1")
	if blind != 1 {
		t.Fatalf("%d statements were carried out unseen", blind)
	}
	for i, c := range []struct{ lines, want string }{
		{"D S \nS", "ParameterDescription [23 23]"},
		{"B ||1|1\nE |1\nS", "UPDATE 1"}, // not all at once, so that the backend runs it
		{"C S \nB ||1|1\nE |0\nS", "ERROR 26000"},
		{"Q BEGIN\n" + parse + "B ||1|2\nE |0\nS\nB p||1|1\nE p|0\nS\nQ COMMIT",
			"UPDATE 1\nReadyForQuery T\nBindComplete\nCommandComplete UPDATE 1"},
		{"P other|SELECT id FROM notes\nP |SELECT 5 AS five\nB |other\nE |0\nB |\nE |0\nS", "DataRow 5"},
		{"B |\nE |0\nS", "DataRow 5"},
		{"P |SELECT nonsense\nS\nB |\nE |0\nS", "ERROR 26000"},
		{"B |\nP |SELECT 6\nS\nB |\nE |0\nS", "ERROR 26000"},
		{parse + "B ||x|1\nE |0\nS", "ParseComplete\nERROR 22P02"},
		{"B ||1|1\nE |1\nS", "UPDATE 1"},
		{blindly + "B ||1|1\nE |0\nC S \nS", "UPDATE 1\nCloseComplete"},
		{blindly + "B ||1|1\nE |0\nP |SELECT 6\nB |\nE |0\nS", "DataRow 6"},
		{blindly + "P ne|SET transform_null_equals = off\nB |ne\nE |0\nS\nB ||1|1\nE |0\nS", "UPDATE 1"},
		{parse + "B ||0|1\nE |0\nS\nQ SELECT 1\nB ||1|1\nE |0\nS", "ERROR 26000"},
		{parse + "B ||0|1\nE |0\nS\nQ COMMIT\nB ||1|1\nE |0\nS", "ERROR 26000"},
		{parse + "B ||0|1\nE |0\nS\nP b|BEGIN ISOLATION LEVEL REPEATABLE READ\nB |b\nE |0\nS\nB ||1|1\nE |0\nS\nQ " +
			"COMMIT",
			"UPDATE 1"},
	} {
		if got := l.do(c.lines); !strings.Contains(got, c.want) {
			t.Errorf("%d: %s: the client got\n%s", i, c.lines, got)
		}
	}
	if gain := s.counter(t) - before; gain < 3 {
		t.Error(fmt.Sprint("what the backend has run gains ", gain))
	}
}

// TestReadAtParse: a text without a name that was parsed under other settings is never read anew under these.
func TestReadAtParse(t *testing.T) {
	_, l := unseeing(t)
	l.do("P on|SET standard_conforming_strings = on\nP put|UPDATE counters SET n = $1 WHERE id = $2\nS")
	l.do("Q SET standard_conforming_strings = off\nP |SELECT length('a\\\\b') AS l\nS")
	l.want("B |\nE |0\nS", "DataRow 3")
	l.do("B |on\nE |0\nS")
	for range 3 {
		l.do("B |put|10|1\nE |1\nS") // its COMMIT removes the statement without a name at the backend
	}
	if got := l.do("B |\nE |0\nS"); !strings.Contains(got, "DataRow 3") && !strings.Contains(got, "ERROR 26000") {
		t.Errorf("the client got\n%s", got)
	}
}

// TestRepeatedNames: a request that loses is not repeated where it has closed what it used, or given its name away: the
// name then stands for something else.
func TestRepeatedNames(t *testing.T) {
	for lines, want := range map[string]string{
		"B |a|1|1\nE |0\nP |SELECT 1\nS":                                   "UPDATE 1",
		"B ||1|1\nE |0\nP |UPDATE t SET id = 0 - $1 WHERE id = $2\nS":      "ERROR 40001",
		"D S \nB ||1|1\nE |0\nC S \nS":                                     "ERROR 40001",
		"B |a|1|1\nE |0\nC S a\nS":                                         "ERROR 40001",
		"P b|UPDATE t SET id = $1 WHERE id = $2\nB |b|1|1\nE |0\nC S b\nS": "UPDATE 1",
	} {
		s := newStage(t, true)
		l := s.live(t)
		l.do("Q INSERT INTO t VALUES (1, 'x')\nP a|UPDATE t SET id = $1 WHERE id = $2\n" +
			"P |UPDATE t SET id = $1 WHERE id = $2\nS")
		first := true
		l.host.onSubmit = func(session.Submission) *session.Decision {
			if first {
				first = false
				return &session.Decision{Retry: true, Err: lost()}
			}
			return nil
		}
		if got := l.do(lines); !strings.Contains(got, want) {
			t.Errorf("%s: the client got\n%s", lines, got)
		}
	}
}

// TestPlanned: a session says how it carries its statements out, and why not better.
func TestPlanned(t *testing.T) {
	_, l := unseeing(t)
	l.host.onBlind = func(session.Submission) (session.Decision, bool) { return session.Decision{Commit: true}, true }
	const put = "B |put|10|1\nE |0\nS"
	for range 3 {
		l.do(put)
	}
	for _, c := range []struct {
		name, lines string
		want        []plan.Plan
	}{
		{"alone", put, []plan.Plan{{Kind: plan.Blind}}},
		{"two at once", "B |put|10|1\nE |0\nB |put|10|2\nE |0\nS",
			[]plan.Plan{{Kind: plan.Returning, Refused: plan.Blind, Because: plan.Single}}},
		{"a SELECT", "Q SELECT 1", []plan.Plan{{Kind: plan.Plain}}},
		{"a text that is new", "Q UPDATE counters SET b = 7 WHERE id = 1 AND n > 0",
			[]plan.Plan{{Kind: plan.Plain, Refused: plan.Blind, Because: plan.Prepared}}},
		{"a block", "Q BEGIN\n" + put + "\nQ SELECT n FROM counters WHERE id = 1\nQ COMMIT",
			[]plan.Plan{{Kind: plan.Defer}, {Kind: plan.ReadThrough}}},
		{"behind a write", "Q BEGIN\nQ INSERT INTO t VALUES (77, 'x')\n" + put + "\nQ ROLLBACK",
			[]plan.Plan{{Kind: plan.Plain, Refused: plan.Defer, Because: plan.Prepared},
				{Kind: plan.Plain, Refused: plan.Defer, Because: plan.Known}}},
	} {
		l.plans = nil
		if l.do(c.lines); !slices.Equal(l.plans, c.want) {
			t.Errorf("%s: %+v, want %+v", c.name, l.plans, c.want)
		}
		l.do(put + "\n" + put) // the session knows again who it is
	}
}
