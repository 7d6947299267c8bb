package lint

import (
	"fmt"
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// goPath is a file named on a page; call is a function, as `name()` or `Type.name()`.
var (
	goPath = regexp.MustCompile("^internal/[a-z0-9_/]+\\.go$")
	call   = regexp.MustCompile("^[A-Za-z][A-Za-z0-9.]*\\(\\)$")
)

// declared lists a file's functions and methods, as call writes them.
func declared(s *source) map[string]bool {
	out := map[string]bool{}
	for _, d := range s.ast.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		name := f.Name.Name
		if f.Recv != nil {
			typ := f.Recv.List[0].Type
			if p, ok := typ.(*ast.StarExpr); ok {
				typ = p.X
			}
			if id, ok := typ.(*ast.Ident); ok {
				name = id.Name + "." + name
			}
		}
		out[name+"()"] = true
	}
	return out
}

// checkPage: every file named exists, and has the functions named after it on the same line.
func checkPage(page string, sources []source) (out []string, functions int) {
	files := map[string]map[string]bool{}
	for i := range sources {
		files[sources[i].path] = declared(&sources[i])
	}
	n := 0
	for line := range strings.Lines(page) {
		n++
		path := ""
		for _, m := range codeSpan.FindAllStringSubmatch(line, -1) {
			switch word := m[1]; {
			case goPath.MatchString(word):
				if path = word; files[path] == nil {
					out = append(out, fmt.Sprintf("ARCHITECTURE.md:%d: there is no %s", n, path))
				}
			case call.MatchString(word):
				functions++
				if path == "" {
					out = append(out, fmt.Sprintf("ARCHITECTURE.md:%d: %s is named before a file", n, word))
				} else if files[path] != nil && !files[path][word] {
					out = append(out, fmt.Sprintf("ARCHITECTURE.md:%d: %s has no %s", n, path, word))
				}
			}
		}
	}
	return out, functions
}

func TestArchitecture(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(root(), "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	page := string(b)
	report(t, compareTable(page))
	_, life, ok := strings.Cut(page, "## The life of one COMMIT")
	if !ok {
		t.Fatal("ARCHITECTURE.md does not tell the life of one COMMIT")
	}
	life, _, _ = strings.Cut(life, "\n## ")
	sources := tree(t)
	complaints, _ := checkPage(page, sources)
	report(t, complaints)
	if _, n := checkPage(life, sources); n < 15 {
		t.Errorf("the life of one COMMIT names %d functions: its steps must say where they happen", n)
	}
}
