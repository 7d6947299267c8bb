package lint

import (
	"fmt"
	"go/ast"
	"path"
	"regexp"
	"strings"
	"testing"
)

const (
	fileLinesMax     = 600
	functionLinesMax = 70
)

// unfinished finds the words that mark what somebody meant to do later.
var unfinished = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X)\b`)

// checkSizes: files and functions outside tests stay short.
func checkSizes(s *source) (out []string) {
	if s.test {
		return nil
	}
	if n := strings.Count(s.text, "\n"); n > fileLinesMax {
		out = append(out, fmt.Sprintf("%s has %d lines; the limit is %d", s.path, n, fileLinesMax))
	}
	for _, d := range s.ast.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		n := s.fset.Position(f.End()).Line - s.fset.Position(f.Pos()).Line + 1
		if n > functionLinesMax {
			out = append(out, fmt.Sprintf("%s: function %s has %d lines; the limit is %d", s.at(f.Pos()), f.Name.Name,
				n, functionLinesMax))
		}
	}
	return out
}

// checkUnfinished looks at comments, in tests as well.
func checkUnfinished(s *source) (out []string) {
	for _, g := range s.ast.Comments {
		for _, c := range g.List {
			if w := unfinished.FindString(c.Text); w != "" {
				out = append(out, fmt.Sprintf("%s: %s: finish it, or write an issue", s.at(c.Pos()), w))
			}
		}
	}
	return out
}

// checkAssertions: tests say what they expect themselves.
func checkAssertions(s *source) (out []string) {
	_, third, _ := s.imports()
	for _, p := range third {
		if strings.HasPrefix(p, "github.com/stretchr/") {
			out = append(out, s.path+": imports "+p+"; plain comparisons say more")
		}
	}
	return out
}

// checkGoroutines: pure packages have none.
func checkGoroutines(s *source) (out []string) {
	if l, _ := layerOf(s.pkg); s.test || l.kind != pure {
		return nil
	}
	ast.Inspect(s.ast, func(n ast.Node) bool {
		if g, ok := n.(*ast.GoStmt); ok {
			out = append(out, s.at(g.Pos())+": a pure package starts a goroutine")
		}
		return true
	})
	return out
}

// checkDocs: every package says what it is in doc.go, and nowhere else.
func checkDocs(sources []source) (out []string) {
	documented := map[string]bool{}
	all := map[string]bool{}
	for i := range sources {
		s := &sources[i]
		if !strings.HasPrefix(s.pkg, "internal/") {
			continue
		}
		all[s.pkg] = true
		if path.Base(s.path) == "doc.go" && strings.HasPrefix(s.ast.Doc.Text(), "Package "+s.ast.Name.Name+" ") {
			documented[s.pkg] = true
		} else if s.ast.Doc.Text() != "" {
			out = append(out, s.path+": a package comment outside doc.go")
		}
	}
	for p := range all {
		if !documented[p] {
			out = append(out, p+": no doc.go that says what package it is")
		}
	}
	return out
}

func TestSource(t *testing.T) {
	sources := tree(t)
	report(t, checkDocs(sources))
	for i := range sources {
		for _, check := range []func(*source) []string{checkSizes, checkUnfinished, checkAssertions, checkGoroutines} {
			report(t, check(&sources[i]))
		}
	}
}
