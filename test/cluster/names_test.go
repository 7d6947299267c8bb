package cluster

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"
)

// made is what a text creates, unless its name is put together.
var made = regexp.MustCompile(`\bCREATE (?:UNLOGGED )?(TABLE|SEQUENCE|VIEW|MATERIALIZED ` +
	`VIEW|FUNCTION|PROCEDURE|TYPE|DOMAIN|SCHEMA|ROLE|USER|DATABASE|COLLATION|EXTENSION) (?:IF NOT EXISTS ` +
	`)?([a-z_][a-z0-9_.]*)(%?)`)

// TestNamesAreOfOneTest: tests that share a cluster make nothing of the same name, so that one that fails, and leaves
// what it has made, fails no other.
func TestNamesAreOfOneTest(t *testing.T) {
	packages, err := parser.ParseDir(token.NewFileSet(), ".", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	makes := map[string][]string{} // function → what it creates
	calls := map[string][]string{}
	for _, file := range packages["cluster"].Files {
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			ast.Inspect(f, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.BasicLit:
					if text, err := strconv.Unquote(n.Value); n.Kind == token.STRING && err == nil {
						makes[f.Name.Name] = append(makes[f.Name.Name], names(text)...)
					}
				case *ast.Ident:
					calls[f.Name.Name] = append(calls[f.Name.Name], n.Name)
				}
				return true
			})
		}
	}
	owners := map[string][]string{} // name → tests
	for test := range calls {
		if !strings.HasPrefix(test, "Test") || !slices.Contains(calls[test], "use") {
			continue
		}
		seen := map[string]bool{}
		var visit func(f string)
		visit = func(f string) {
			if seen[f] {
				return
			}
			seen[f] = true
			for _, name := range makes[f] {
				if !slices.Contains(owners[name], test) {
					owners[name] = append(owners[name], test)
				}
			}
			for _, g := range calls[f] {
				visit(g)
			}
		}
		visit(test)
	}
	for name, tests := range owners {
		if sort.Strings(tests); len(tests) > 1 {
			t.Errorf("%s is made by %s", name, strings.Join(tests, ", "))
		}
	}
}

// names are what a text creates, as kind and name; those of one kind of relation or routine are in each other's way.
func names(text string) []string {
	var out []string
	for _, m := range made.FindAllStringSubmatch(text, -1) {
		kind, name := m[1], m[2]
		switch kind {
		case "TABLE", "SEQUENCE", "VIEW", "MATERIALIZED VIEW", "TYPE", "DOMAIN":
			kind = "relation"
		case "FUNCTION", "PROCEDURE":
			kind = "routine"
		}
		if m[3] == "" {
			out = append(out, strings.ToLower(kind)+" "+name)
		}
	}
	return out
}
