package lint

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// orderFree begins the comment that says why the order of a map cannot leak; it stands on the
// line of the loop, or on the one above.
const orderFree = "// order-free:"

// exports gives the compiled export data of what pure packages import.
func exports(t *testing.T, packages []string) importerFunc {
	t.Helper()
	args := append([]string{"list", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}"}, packages...)
	cmd := exec.Command("go", args...)
	cmd.Dir = root()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	list, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	files := map[string]string{}
	for line := range strings.Lines(string(list)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), "\t")
		files[path] = file
	}
	return func(path string) (io.ReadCloser, error) {
		if files[path] == "" {
			return nil, fmt.Errorf("no export data of %s", path)
		}
		return os.Open(files[path])
	}
}

type importerFunc = func(path string) (io.ReadCloser, error)

// checkRanges is the last part of R2 for the files of one package.
func checkRanges(pkg string, sources []source, lookup importerFunc) (out []string, err error) {
	fset := token.NewFileSet()
	var files []*ast.File
	var parsed []source
	for _, s := range sources {
		if s.pkg != pkg || s.test || strings.Contains(s.text, "//go:build planted\n") {
			continue
		}
		s.fset = fset // the type checker wants one for all files
		if s.ast, err = parser.ParseFile(fset, s.path, s.text,
			parser.ParseComments|parser.SkipObjectResolution); err != nil {
			return nil, err
		}
		files, parsed = append(files, s.ast), append(parsed, s)
	}
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}}
	conf := types.Config{Importer: importer.ForCompiler(fset, "gc", lookup)}
	if _, err := conf.Check(module+pkg, fset, files, info); err != nil {
		return nil, err
	}
	for i := range parsed {
		out = append(out, leaks(&parsed[i], info)...)
	}
	return out, nil
}

// leaks finds the places of one file where the order of a map comes in without excuse.
func leaks(s *source, info *types.Info) (out []string) {
	lines := strings.Split(s.text, "\n")
	excused := func(p token.Pos) bool {
		n := s.fset.Position(p).Line - 1
		return strings.Contains(lines[n], orderFree) ||
			n > 0 && strings.HasPrefix(strings.TrimSpace(lines[n-1]), orderFree)
	}
	ast.Inspect(s.ast, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.RangeStmt:
			if _, ok := info.TypeOf(n.X).Underlying().(*types.Map); ok && !excused(n.Pos()) {
				out = append(out, s.at(n.Pos())+": a pure package ranges over a map without a comment "+orderFree)
			}
		case *ast.SelectorExpr:
			o := info.Uses[n.Sel]
			if o != nil && o.Pkg() != nil && o.Pkg().Path() == "maps" &&
				slices.Contains([]string{"All", "Keys", "Values"}, o.Name()) && !excused(n.Pos()) {
				out = append(out, s.at(n.Pos())+": a pure package iterates over a map without a comment "+orderFree)
			}
		}
		return true
	})
	return out
}

func TestMapOrder(t *testing.T) {
	sources := tree(t)
	var packages []string
	for name, l := range layers {
		if l.kind == pure {
			packages = append(packages, "./internal/"+name)
		}
	}
	lookup := exports(t, packages)
	for _, p := range packages {
		complaints, err := checkRanges(strings.TrimPrefix(p, "./"), sources, lookup)
		if err != nil {
			t.Fatal(err)
		}
		report(t, complaints)
	}
}
