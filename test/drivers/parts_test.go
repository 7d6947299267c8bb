package drivers

import (
	"bufio"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	want := Outcomes{"p TestA": Pass, "p TestB": Fail, "p TestC": Skip, "q TestD/…x": Pass}
	got, err := parseGo([]byte(`building
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"fail","Package":"p","Test":"TestB"}
{"Action":"skip","Package":"p","Test":"TestC"}
{"Action":"pass","Package":"q","Test":"TestD//tmp/TestD123/001/x"}
{"Action":"fail","Package":"p"}
`))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v %v", got, err)
	}
	got, err = parseXML([]byte(
		`<testsuites><testsuite><testcase classname="p" name="TestA"/><testcase classname="p" name="TestB"><failure message="x">y</failure></testcase>
<testcase classname="p" name="TestC"><skipped/></testcase><testcase classname="q" name="TestD/0xabcdef01x"/></testsuite></testsuites>`))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v %v", got, err)
	}
	got, err = parseLines([]byte("hello\nok - p TestA # 3 ms\nnot ok - p TestB\nok - p TestB\n"))
	if want := (Outcomes{"p TestA": Pass, "p TestB": Fail}); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v %v", got, err)
	}
	for what, err := range map[string]error{"go": second(parseGo([]byte("no tests\n"))),
		"xml": second(parseXML([]byte("<a/>"))), "cut": second(parseXML([]byte("<a><testcase"))),
		"lines": second(parseLines(nil))} {
		if err == nil {
			t.Errorf("%s: nothing was run, and that is no error", what)
		}
	}
}

func second(_ Outcomes, err error) error { return err }

func TestCompare(t *testing.T) {
	got := Compare(Outcomes{"a": Pass, "b": Pass, "c": Fail, "d": Skip},
		Outcomes{"a": Pass, "b": Fail, "c": Fail, "e": Pass})
	want := []Difference{{"b", Pass, Fail}, {"d", Skip, Missing}, {"e", Missing, Pass}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v", got)
	}
}

func TestAccepted(t *testing.T) {
	dir := t.TempDir()
	if a, err := ReadAccepted(dir, "x"); a != nil || err != nil {
		t.Errorf("%v %v", a, err)
	}
	text := "# one\n# reason\npass fail a b\nskip missing c\n\n# another\nsometimes pass fail d\n"
	if err := os.WriteFile(filepath.Join(dir, "x.txt"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	a, err := ReadAccepted(dir, "x")
	if err != nil || len(a) != 2 || a[0].Why != "one reason" {
		t.Fatalf("%v %v", a, err)
	}
	fresh, stale := a.Judge([]Difference{{"a b", Pass, Fail}, {"d", Pass, Fail}, {"e", Pass, Fail},
		{"c", Pass, Missing}})
	if !reflect.DeepEqual(fresh, []Difference{{"e", Pass, Fail}, {"c", Pass, Missing}}) ||
		!reflect.DeepEqual(stale, []Difference{{"c", Skip, Missing}}) {
		t.Errorf("%v, %v", fresh, stale)
	}
	for _, bad := range []string{"pass fail a", "# why\npass fail", "# why\n\npass fail a"} {
		if _, err := parseAccepted(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

// TestAcceptedDirectory reads every list of the repository.
func TestAcceptedDirectory(t *testing.T) {
	names := map[string]bool{}
	for _, s := range suites() {
		names[s.Name] = true
	}
	files, err := filepath.Glob("accepted/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		name, ok := strings.CutSuffix(filepath.Base(f), ".txt")
		if _, err := ReadAccepted("accepted", name); err != nil || !ok || !names[name] {
			t.Errorf("%s: no list of a suite: %v", f, err)
		}
	}
}

func TestSplice(t *testing.T) {
	page := "head\n<!-- score: begin -->\n| a | old |\n<!-- score: end -->\n"
	page, err := splice(page, "b", "| b | 1 |\n")
	if err == nil {
		page, err = splice(page, "a", "| a | new |\n")
	}
	if want := "head\n<!-- score: begin -->\n| a | new |\n| b | 1 |\n<!-- score: end -->\n"; err != nil ||
		page != want {
		t.Errorf("%v\n%s", err, page)
	}
	if _, err := splice("no marks", "a", ""); err == nil {
		t.Error("a page without marks is taken")
	}
}

// TestPieces: what became of each piece can be read again, and pieces have files of their own.
func TestPieces(t *testing.T) {
	s := Suite{Parts: []string{"a", "b c"}}
	if got := s.pieces(); len(got) != 1 || len(got[0]) != 2 {
		t.Errorf("%v", got)
	}
	s.Apart = true
	files := map[string]bool{pieceFile(s.Parts): true, pieceFile([]string{"a b c"}): true}
	for _, parts := range s.pieces() {
		files[pieceFile(parts)] = true
	}
	if len(s.pieces()) != 2 || len(files) != 4 {
		t.Errorf("%v %v", s.pieces(), files)
	}
	whole := Piece{Plain: Outcomes{}, Tutti: Outcomes{}}
	for _, name := range []string{"x", "y"} {
		p := Piece{Plain: Outcomes{name: Pass}, Tutti: Outcomes{name: Fail},
			Differences: []Difference{{name, Pass, Fail}}}
		file := filepath.Join(t.TempDir(), "p")
		if err := p.write(file); err != nil {
			t.Fatal(err)
		}
		p, err := readPiece(file)
		if err != nil {
			t.Fatal(err)
		}
		whole.add(p)
	}
	if whole.Plain.Count(Pass) != 2 || whole.Tutti.Count(Fail) != 2 || len(whole.Differences) != 2 ||
		whole.Differences[1] != (Difference{"y", Pass, Fail}) {
		t.Errorf("%+v", whole)
	}
}

// TestRun: what a suite gets and how it is ended (D1, D2).
func TestRun(t *testing.T) {
	t.Setenv("PGSERVICE", "leak")
	t.Setenv("TUTTI_LEAK", "leak")
	a := &Arm{Host: "h", Port: 7, Dir: t.TempDir()}
	s := Suite{Limit: 20 * time.Second, parse: parseLines, command: func(a *Arm, _ string) ([]string, []string) {
		return []string{"/bin/sh", "-c",
				`echo "ok - $PGHOST $PGPORT $MORE ${PGSERVICE-none} ${TUTTI_LEAK-none}"; exit 3`},
			[]string{"MORE=" + a.Keywords()}
	}}
	o, _, err := s.Run(t.Context(), a, t.TempDir(), nil)
	want := "h 7 host=h port=7 user=postgres dbname=postgres sslmode=disable none none"
	if err != nil || o[stableName(want)] != Pass || len(o) != 1 {
		t.Errorf("%v %v", o, err)
	}
	s.Limit, s.command = 6*time.Second, func(*Arm, string) ([]string, []string) {
		return []string{"/bin/sh", "-c", "echo 'ok - begun'; sleep 60; echo 'ok - done'"}, nil
	}
	began := time.Now()
	o, out, err := s.Run(t.Context(), a, t.TempDir(), nil)
	if err != nil || len(o) != 1 || !strings.Contains(string(out), "ended at the limit") ||
		time.Since(began) > 45*time.Second {
		t.Errorf("%v %v %s", o, err, out)
	}
}

func TestForward(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		line, _ := bufio.NewReader(c).ReadString('\n')
		_, _ = c.Write([]byte("got " + line))
		_ = c.Close()
	}()
	c, err := net.Dial("tcp", forward(t, socket).String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write([]byte("hello\n")); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(c).ReadString('\n'); line != "got hello\n" {
		t.Errorf("%q %v", line, err)
	}
}
