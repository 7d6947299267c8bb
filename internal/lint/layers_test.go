package lint

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// kind says what a package may do.
type kind string

const (
	pure kind = "pure" // see R2
	edge kind = "IO"
	test kind = "tests" // imported by test files only
)

// layer is one row: what code outside tests may import.
type layer struct {
	kind  kind
	ours  string // packages below internal, separated by spaces
	third string // packages of third parties
}

// layers is the architecture: the table of docs/LAYERS.md.
var layers = mustReadLayers()

// testTools are what test files may import from third parties beside what any package may.
var testTools = []string{
	"github.com/cockroachdb/datadriven", "pgregory.net/rapid", "go.uber.org/goleak",
	"github.com/pmezard/go-difflib/difflib", "github.com/prometheus/client_golang/prometheus/testutil/promlint",
}

// testDatabase is what tests of any package may use to find and prepare a real PostgreSQL.
var testDatabase = []string{"database/catalog", "database/embedded", "collect"}

// banned may not be imported by pure packages: a name bans what is below it as well.
var banned = []string{
	"os", "net", "time", "sync", "context", "math/rand", "crypto/rand", "log", "syscall", "runtime", "unsafe", "plugin",
}

// layerOf finds the row of a package.
func layerOf(pkg string) (layer, bool) {
	l, ok := layers[strings.TrimPrefix(pkg, "internal/")]
	return l, ok
}

// checkImports is R1 and the first half of R2 for one file.
func checkImports(s *source) (out []string) {
	l, ok := layerOf(s.pkg)
	if !ok {
		return []string{s.path + ": its package has no row in docs/LAYERS.md"}
	}
	ours, third, std := s.imports()
	if s.test {
		return checkTestImports(s, l, ours, third)
	}
	for _, o := range ours {
		if !slices.Contains(strings.Fields(l.ours), strings.TrimPrefix(o, "internal/")) {
			out = append(out, fmt.Sprintf("%s: %s may not import %s by docs/LAYERS.md", s.path, s.pkg, o))
		}
	}
	for _, p := range third {
		if !slices.Contains(strings.Fields(l.third), p) {
			out = append(out, fmt.Sprintf("%s: %s may not import %s by docs/LAYERS.md", s.path, s.pkg, p))
		}
	}
	for _, p := range std {
		for _, b := range banned {
			if l.kind == pure && (p == b || strings.HasPrefix(p, b+"/")) {
				out = append(out, fmt.Sprintf("%s: %s is pure and may not import %s", s.path, s.pkg, p))
			}
		}
	}
	return out
}

// checkTestImports: tests may use the test packages, and the pure ones; of third parties what
// some package uses, and testTools.
func checkTestImports(s *source, l layer, ours, third []string) (out []string) {
	for _, o := range ours {
		name := strings.TrimPrefix(o, "internal/")
		to := layers[name]
		free := o == s.pkg || slices.Contains(testDatabase, name) || to.kind != edge ||
			slices.Contains(strings.Fields(l.ours), name) || l.kind == test
		if !free {
			out = append(out, fmt.Sprintf("%s: tests of %s may not import %s", s.path, s.pkg, o))
		}
	}
	for _, p := range third {
		known := slices.Contains(testTools, p)
		for _, l := range layers {
			known = known || slices.Contains(strings.Fields(l.third), p)
		}
		if !known {
			out = append(out, fmt.Sprintf("%s: tests may not import %s", s.path, p))
		}
	}
	return out
}

func TestImports(t *testing.T) {
	used := map[string]bool{} // package and import
	for _, s := range tree(t) {
		report(t, checkImports(&s))
		if s.test {
			continue
		}
		ours, third, _ := s.imports()
		for _, i := range append(ours, third...) {
			used[s.pkg+" "+strings.TrimPrefix(i, "internal/")] = true
		}
	}
	for name, l := range layers {
		dir := "internal/" + name
		if strings.HasPrefix(name, "cmd/") {
			dir = name
		}
		if _, err := os.Stat(filepath.Join(root(), filepath.FromSlash(dir))); err != nil {
			t.Errorf("docs/LAYERS.md has a row for %s, which does not exist", name)
		}
		for _, i := range strings.Fields(l.ours + " " + l.third) {
			if !used[dir+" "+i] {
				t.Errorf("docs/LAYERS.md allows %s to import %s, which it does not", name, i)
			}
		}
	}
}

var codeSpan = regexp.MustCompile("`([^`]*)`")

// mustReadLayers reads the page before any test.
func mustReadLayers() map[string]layer {
	page, err := os.ReadFile(filepath.Join(root(), "docs", "LAYERS.md"))
	if err != nil {
		panic(err)
	}
	rows, err := tableRows(string(page))
	if err != nil {
		panic(err)
	}
	return rows
}

// tableRows reads a table of layers: package, kind, ours, third parties, what it is.
func tableRows(page string) (map[string]layer, error) {
	out := map[string]layer{}
	list := func(cell string) string {
		var names []string
		for _, m := range codeSpan.FindAllStringSubmatch(cell, -1) {
			names = append(names, m[1])
		}
		return strings.Join(names, " ")
	}
	for line := range strings.Lines(page) {
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 5 {
			return nil, fmt.Errorf("docs/LAYERS.md: a row has %d cells: %s", len(cells), line)
		}
		l := layer{kind(strings.TrimSpace(cells[1])), list(cells[2]), list(cells[3])}
		name := list(cells[0])
		if _, twice := out[name]; twice || !slices.Contains([]kind{pure, edge, test}, l.kind) {
			return nil, fmt.Errorf("docs/LAYERS.md: a package twice, or of no kind: %s", line)
		}
		if strings.TrimSpace(cells[4]) == "" {
			return nil, fmt.Errorf("docs/LAYERS.md: what is it? %s", line)
		}
		out[name] = l
	}
	if len(out) == 0 {
		return nil, errors.New("docs/LAYERS.md: no table")
	}
	return out, nil
}
