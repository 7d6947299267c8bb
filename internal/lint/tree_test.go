package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/tuttidb/tutti/"

// source is one parsed file.
type source struct {
	path string // from the root of the repository, with slashes
	pkg  string // its directory
	test bool
	text string
	fset *token.FileSet
	ast  *ast.File
}

func root() string { return filepath.Join("..", "..") }

func parse(path, text string) (source, error) {
	s := source{path: path, text: text, fset: token.NewFileSet(), test: strings.HasSuffix(path, "_test.go")}
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		s.pkg = path[:i]
	}
	var err error
	s.ast, err = parser.ParseFile(s.fset, path, text, parser.ParseComments|parser.SkipObjectResolution)
	return s, err
}

// tree parses every Go file below cmd and internal.
func tree(t *testing.T) []source {
	t.Helper()
	out := append(below(t, "cmd"), below(t, "internal")...)
	if len(out) < 100 {
		t.Fatalf("only %d files found: the tests do not look where the source is", len(out))
	}
	return out
}

// below parses every Go file below a directory of the repository.
func below(t *testing.T, top string) (out []source) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(root(), top), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root(), path)
		if err != nil {
			return err
		}
		s, err := parse(filepath.ToSlash(rel), string(text))
		out = append(out, s)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// imports splits a file's imports into those of ours, third parties' and the standard library's.
func (s *source) imports() (ours, third, std []string) {
	for _, i := range s.ast.Imports {
		path, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			panic(err) // the parser accepted it
		}
		first, _, _ := strings.Cut(path, "/")
		switch {
		case strings.HasPrefix(path, module):
			ours = append(ours, strings.TrimPrefix(path, module))
		case strings.Contains(first, "."):
			third = append(third, path)
		default:
			std = append(std, path)
		}
	}
	return ours, third, std
}

func (s *source) at(p token.Pos) string {
	return s.path + ":" + strconv.Itoa(s.fset.Position(p).Line)
}

func report(t *testing.T, complaints []string) {
	t.Helper()
	for _, c := range complaints {
		t.Error(c)
	}
}
