package lint

import (
	"fmt"
	"strings"
	"testing"
)

// TestRefuseRatchets shows each figure go over its limit, and stay at it.
func TestRefuseRatchets(t *testing.T) {
	repeat := func(n int, format string) (out string) {
		for i := range n {
			out += fmt.Sprintf(format+"\n", i)
		}
		return out
	}
	wide := "// " + strings.Repeat("ab ", 40)
	url := "// https://" + strings.Repeat("ab/", 40)
	structs := "type big struct{\n" + repeat(20, "f%d int") + "}\n"
	wider := "type wider struct{\n" + repeat(fieldsMax-20, "g%d int") + "big\n%s}\n"
	ifs := "func (t T) f(x, y bool) {\n" + repeat(branchesMax-5, "if x { _ = %d }") +
		"for x { }\nfor range 3 { }\nselect { case <-c: default: }\nswitch { case x: default: }\n"
	for _, c := range []struct {
		name, text, want string
	}{
		{"methods", "type T int\n" + repeat(methodsMax+1, "func (t *T) f%d() {}"), "methods internal/node T has 41"},
		{"methods at the limit", "type T int\n" + repeat(methodsMax, "func (t *T) f%d() {}"), ""},
		{"methods of a generic type", "type T[P any] int\n" + repeat(methodsMax+1, "func (t *T[P]) f%d() {}"),
			"methods internal/node T has 41"},
		{"fields", structs + fmt.Sprintf(wider, "h int\n"), "fields internal/node wider has 26"},
		{"fields at the limit", structs + fmt.Sprintf(wider, ""), ""},
		{"fields of a pointer",
			structs + strings.ReplaceAll(fmt.Sprintf(wider, "h int\n"), "big", "*big"), "wider has 26"},
		{"fields without a name",
			"type T struct { a, b struct {\n" + repeat(13, "f%d int") + "}\n}", "fields internal/node T has 26"},
		{"a struct in itself", "type T struct { *T }", ""},
		{"fields of another package",
			`import w "github.com/tuttidb/tutti/internal/writeset"` +
				"\ntype T struct {\nw.Other\n" + repeat(25, "f%d int") + "}",
			"fields internal/node T has 27"},
		{"interface",
			"type I interface {\n" + repeat(12, "F%d()") + "}\ntype J interface {\nI\nG()\n}",
			"interface internal/node J has 13"},
		{"interface at the limit",
			"type I interface {\n" + repeat(12, "F%d()") + "}\ntype J interface {\nI\n}", ""},
		{"branches", ifs + "_ = x && y\n_ = x || y\n}", "branches internal/node T.f has 16"},
		{"branches at the limit", ifs + "_ = x && y\n}", ""},
		{"branches of a closure", ifs + "func() { if x && y { } }()\n}", "branches internal/node T.f has 16"},
		{"columns", wide, "columns internal/node has 1 "},
		{"columns by tabs", "func f() {\n\t\t" + wide[:width(wide)-8] + "\n}", "columns internal/node has 1 "},
		{"columns at the limit", "// " + strings.Repeat("a ", (columnsMax-3)/2) + "b", ""},
		{"an address", url, ""},
		{"inside a string", "const x = `\n" + wide + "\n`", ""},
		{"a string of one line", "const x = `" + wide + "`", "columns internal/node has 1 "},
		{"retired", "func oldWords() {}", "word tree old has 1"},
		{"retired field", "type T struct { f, newOld int }", "word tree old has 1"},
		{"not retired", "func bold() { old := 1; _ = old }", ""},
	} {
		s, err := parse("internal/node/x.go", "package node\n"+c.text+"\n")
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		other, err := parse("internal/writeset/x.go", "package writeset\ntype Other struct { a, b int }\n")
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(checkRatchets(measure([]source{s, other}, []string{"old"}), nil), "\n")
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: want %q, got %q", c.name, c.want, got)
		}
	}
}

// TestRefuseFew: a package of size has tests of its own, and node stays small.
func TestRefuseFew(t *testing.T) {
	for _, c := range []struct {
		pkg, want       string
		lines, ownTests int
	}{
		{"internal/engine", "tests internal/engine has 49 percent", 1000, 499},
		{"internal/engine", "", 1000, 500},
		{"internal/engine", "", 99, 0},
		{"internal/lint", "", 1000, 0},
		{"internal/node", "size internal/node has 4501 lines", nodeLinesMax + 1, nodeLinesMax},
		{"internal/node", "", nodeLinesMax, nodeLinesMax},
	} {
		code, err := parse(c.pkg+"/x.go", "package x\n"+strings.Repeat("\n", c.lines-1))
		if err != nil {
			t.Fatal(err)
		}
		tests, err := parse(c.pkg+"/x_test.go", "package x"+strings.Repeat("\n", c.ownTests))
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(checkRatchets(measure([]source{code, tests}, nil), nil), "\n")
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%v: want %q, got %q", c, c.want, got)
		}
	}
}

// TestRefuseList: an entry may be reached and bettered, not passed; one that is not needed goes.
func TestRefuseList(t *testing.T) {
	of := func(rule string, n int) map[subject]int { return map[subject]int{{rule, "p", ""}: n} }
	for _, c := range []struct {
		name             string
		measured, listed map[subject]int
		want             string
	}{
		{"as listed", of("columns", 7), of("columns", 7), ""},
		{"better", of("columns", 6), of("columns", 7), ""},
		{"worse", of("columns", 8), of("columns", 7), "may only get better"},
		{"not listed", of("columns", 1), nil, "the limit is 0"},
		{"good", of("columns", 0), of("columns", 7), "offends no longer"},
		{"gone", nil, of("columns", 7), "does not exist"},
		{"tests worse", of("tests", 20), of("tests", 31), "may only get better"},
		{"tests within what a move may take", of("tests", 21), of("tests", 31), ""},
		{"tests good", of("tests", 50), of("tests", 31), "offends no longer"},
	} {
		got := strings.Join(checkRatchets(c.measured, c.listed), "\n")
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: want %q, got %q", c.name, c.want, got)
		}
	}
	for _, text := range []string{
		"p\n", "p columns x\n", "p nothing 3\n", "p columns 3\np columns 4\n", "p columns a b 3\n",
	} {
		if _, err := readOffenders(text); err == nil {
			t.Errorf("%q is taken for a list", text)
		}
	}
}

// TestShrink: only what offends stays, at the better figure, and what is written can be read.
func TestShrink(t *testing.T) {
	listed := map[subject]int{
		{"columns", "p", ""}: 7, {"columns", "q", ""}: 7,
		{"branches", "p", "f"}: 20, {"methods", "p", "T"}: 50, {"tests", "p", ""}: 20,
	}
	measured := map[subject]int{
		{"columns", "p", ""}: 5, {"columns", "q", ""}: 9,
		{"branches", "p", "f"}: 15, {"branches", "p", "g"}: 30, {"tests", "p", ""}: 22,
	}
	want := "\np tests 22\np columns 5\n\nq columns 7\n"
	got := writeOffenders(measured, listed)
	if got != offendersHead+want {
		t.Errorf("want %q, got %q", want, strings.TrimPrefix(got, offendersHead))
	}
	if again, err := readOffenders(got); err != nil || len(again) != 3 {
		t.Errorf("what was written is read as %v, %v", again, err)
	}
}

func TestRefuseWords(t *testing.T) {
	for page, want := range map[string]string{
		"| base | x |\n| key | y |":                     "",
		"| key | y |\n| base | x |":                     "stands behind",
		"| base | x |\n| base | y |":                    "two rows",
		"| base | x |\n## Retired\n| old, base | y |\n": "is retired",
		"| base | x |\n## Retired\n| old | y |\n":       "",
	} {
		words, retired := glossaryWords("# Glossary\n" + page)
		if len(words) == 0 {
			t.Errorf("%q: no words", page)
		}
		got := strings.Join(checkWords(words, retired), "\n")
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%q: want %q, got %q", page, want, got)
		}
	}
}
