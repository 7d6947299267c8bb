package lint

import (
	"errors"
	"io"
	"maps"
	"strings"
	"testing"
)

// TestRefuse shows every rule refuse what it is there to refuse (R3), and let pass what is
// next to it.
func TestRefuse(t *testing.T) {
	long := strings.Repeat("\t_ = 1\n", functionLinesMax)
	mark := "TO" + "DO"
	for _, c := range []struct {
		name, path, text, want string
	}{
		{"stages", "internal/apply/x.go", `package apply; import _ "github.com/tuttidb/tutti/internal/certify"`,
			"may not import internal/certify"},
		{"own value", "internal/apply/x.go", `package apply; import _ "github.com/tuttidb/tutti/internal/writeset"`,
			""},
		{"third party", "internal/certify/x.go", `package certify; import _ "github.com/jackc/pgx/v5"`,
			"may not import github.com/jackc/pgx/v5"},
		{"unknown package", "internal/util/x.go", `package util`, "no row"},
		{"test of pure", "internal/engine/x_test.go",
			`package engine; import _ "github.com/tuttidb/tutti/internal/node"`, "may not import internal/node"},
		{"test tool", "internal/engine/x_test.go", `package engine; import _ "pgregory.net/rapid"`, ""},
		{"unknown tool", "internal/engine/x_test.go", `package engine; import _ "github.com/onsi/gomega"`,
			"may not import github.com/onsi/gomega"},
		{"test package", "internal/node/x.go", `package node; import _ "github.com/tuttidb/tutti/internal/pgtest"`,
			"may not import internal/pgtest"},
		{"clock", "internal/engine/x.go", `package engine; import _ "time"`, "pure"},
		{"clock outside", "internal/node/x.go", `package node; import _ "time"`, ""},
		{"files", "internal/session/x.go", `package session; import _ "os/exec"`, "pure"},
		{"chance", "internal/session/x.go", `package session; import _ "math/rand/v2"`, "pure"},
		{"secret chance", "internal/capture/x.go", `package capture; import _ "crypto/rand"`, "pure"},
		{"locks", "internal/certify/x.go", `package certify; import _ "sync/atomic"`, "pure"},
		{"context", "internal/semantics/x.go", `package semantics; import _ "context"`, "pure"},
		{"network", "internal/ordering/x.go", `package ordering; import _ "net/netip"`, "pure"},
		{"goroutine", "internal/engine/x.go", "package engine\nfunc f() { go f() }", "goroutine"},
		{"goroutine outside", "internal/node/x.go", "package node\nfunc f() { go f() }", ""},
		{"long function", "internal/node/x.go", "package node\nfunc f() {\n" + long + "}\n", "function f has"},
		{"long test", "internal/node/x_test.go", "package node\nfunc f() {\n" + long + "}\n", ""},
		{"long file", "internal/node/x.go", "package node\n" + strings.Repeat("\n", fileLinesMax), "the limit is 600"},
		{"unfinished", "internal/node/x_test.go", "package node\n// " + mark + ": later\n", "finish it"},
		{"not unfinished", "internal/node/x.go", "package node\nconst x = \"" + mark + "\"\n", ""},
		{"assertions", "internal/node/x_test.go", `package node; import _ "github.com/stretchr/testify/require"`,
			"plain comparisons"},
	} {
		s, err := parse(c.path, c.text)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, check := range []func(*source) []string{checkImports, checkSizes, checkUnfinished, checkAssertions,
			checkGoroutines} {
			got = append(got, check(&s)...)
		}
		all := strings.Join(got, "\n")
		if c.want == "" && all != "" || !strings.Contains(all, c.want) {
			t.Errorf("%s: want %q, got %q", c.name, c.want, all)
		}
	}
}

func TestRefuseDocs(t *testing.T) {
	for text, want := range map[string]string{
		"package x\n":                        "no doc.go",
		"// Package x is.\npackage x\n":      "",
		"// What package x is.\npackage x\n": "no doc.go",
	} {
		s, err := parse("internal/x/doc.go", text)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(checkDocs([]source{s}), "\n"); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%q: want %q, got %q", text, want, got)
		}
	}
}

func TestRefuseMapOrder(t *testing.T) {
	none := func(string) (io.ReadCloser, error) { return nil, errors.New("nothing to import") }
	for text, want := range map[string]string{
		"func f(m map[int]int) { for range m {} }":                                                "ranges over a map",
		"type m map[int]int; type s struct{ m m }\nfunc f(x *s) { for k := range x.m { _ = k } }": "ranges over a map",
		"func f(m map[int]int) {\n// order-free: a sum\nfor range m {} }":                         "",
		"func f(m map[int]int) { for range m {} // order-free: a sum\n}":                          "",
		"func f(m []int) { for range m {} }":                                                      "",
	} {
		s, err := parse("internal/engine/x.go", "package engine\n"+text)
		if err != nil {
			t.Fatal(err)
		}
		complaints, err := checkRanges("internal/engine", []source{s}, none)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(complaints, "\n"); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%q: want %q, got %q", text, want, got)
		}
	}
}

func TestRefusePage(t *testing.T) {
	code, err := parse("internal/node/x.go", "package node\ntype a struct{}\nfunc (x *a) b() {}\nfunc c() {}\n// see "+
		"decision 0099\n")
	if err != nil {
		t.Fatal(err)
	}
	tests, err := parse("internal/node/x_test.go", "package node\nfunc TestIt() {}\nfunc FuzzIt() {}\n")
	if err != nil {
		t.Fatal(err)
	}
	paths := []string{"docs/A.md", "docs/decisions/0001-one.md", "internal/node/x.go", "internal/node/x_test.go"}
	pages := map[string]string{"docs/A.md": "# A page, `of` 2 words\n"}
	k := learn([]source{code, tests}, paths, pages, `"lost-lock", "lost-vote"`)
	for page, want := range map[string]string{
		"`internal/node/x.go` `a.b()` `c()`":              "",
		"`internal/node/y.go`":                            "there is no internal/node/y.go",
		"`internal/node` and `internal/node/`":            "",
		"`internal/nod`":                                  "there is no internal/nod",
		"`internal/node/x.go` `a.c()`":                    "has no a.c()",
		"`a.b()` in `internal/node/x.go`":                 "named before a file",
		"`internal/node/x.go` and\n`a.b()`, of two lines": "",
		"- `internal/node/x.go`\n- `a.b()`, of two items": "named before a file",
		"`tutti.collect()` and `now()` are SQL":           "",
		"`test/cluster`":                                  "there is no test/cluster",
		"TestIt, FuzzIt":                                  "",
		"go test -run TestOther":                          "there is no test TestOther",
		"(planted bugs `lost-lock`, `lost-vote`)":         "",
		"the planted bug `lost`":                          "there is no planted bug lost",
		"planted bugs `lost-lock` and `lost-key`":         "there is no planted bug lost-key",
		"decision 0001":                                   "",
		"Decision 0002":                                   "there is no decision 0002",
		"[x](docs/A.md) [y](docs/A.md#a-page-of-2-words)": "",
		"[x](https://example.org/x) [y](docs/decisions)":  "",
		"[x](docs/B.md)":                                  "there is no docs/B.md",
		"[x](docs/A.md#b)":                                "has no heading b",
	} {
		complaints, _ := k.page("README.md", page)
		if got := strings.Join(complaints, "\n"); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%q: want %q, got %q", page, want, got)
		}
	}
	if got := k.comments(&code); len(got) != 1 || !strings.Contains(got[0], "there is no decision 0099") {
		t.Errorf("a comment's decision gives %q", got)
	}
}

func TestRefuseDecisions(t *testing.T) {
	good := map[string]string{
		"docs/decisions/README.md":   "| [0001](0001-one.md) | it |\n| [0002](0002-two.md) | it |\n",
		"docs/decisions/0001-one.md": "# 0001 One\n", "docs/decisions/0002-two.md": "# 0002: Two\n", "README.md": "",
	}
	for add, want := range map[string]string{
		"":                             "",
		"docs/decisions/0003-three.md": "README.md has 0 lines for 0003-three.md",
		"docs/decisions/0002-other.md": "have one number",
	} {
		pages := maps.Clone(good)
		if number, _, ok := strings.Cut(strings.TrimPrefix(add, "docs/decisions/"), "-"); ok {
			pages[add] = "# " + number + " More\n"
		}
		if got := strings.Join(checkDecisions(pages), "\n"); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%q: want %q, got %q", add, want, got)
		}
	}
	good["docs/decisions/0002-two.md"] = "# Two\n"
	if got := checkDecisions(good); len(got) != 1 || !strings.Contains(got[0], "title") {
		t.Errorf("a title without number gives %q", got)
	}
}

func TestRefuseLayers(t *testing.T) {
	good := "| `a` | pure | `b`, `c` | `x/y` | it |\n| `b` | IO | | | it |\n"
	rows, err := tableRows("# Layers\n| Package | Kind |\n|---|---|\n" + good)
	want := map[string]layer{"a": {pure, "b c", "x/y"}, "b": {edge, "", ""}}
	if err != nil || !maps.Equal(rows, want) {
		t.Errorf("want %v, got %v, %v", want, rows, err)
	}
	for _, page := range []string{
		"", good + good, "| `a` | pure | `b` | it |\n", "| `a` | some | | | it |\n", "| `a` | pure | | | |\n",
	} {
		if rows, err := tableRows(page); err == nil {
			t.Errorf("%q is read as %v", page, rows)
		}
	}
}
