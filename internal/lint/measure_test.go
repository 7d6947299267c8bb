package lint

import (
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// tabColumns is what a tab counts in a line's width.
const tabColumns = 4

// measure takes all figures of ratchet_test.go.
func measure(sources []source, retired []string) map[subject]int {
	m := &measurer{figures: map[subject]int{}, types: map[string]typ{}, lines: map[string][2]int{}}
	for i := range sources {
		m.declare(&sources[i])
	}
	for _, w := range retired {
		m.figures[subject{"word", "tree", w}] = 0
	}
	for i := range sources {
		m.columns(&sources[i])
		if !sources[i].test {
			m.source(&sources[i], retired)
		}
	}
	m.packages()
	return m.figures
}

type measurer struct {
	figures map[subject]int
	types   map[string]typ    // by directory and name
	lines   map[string][2]int // by package: of source, of tests
}

// typ is a declared type, with what the words of its file's imports mean.
type typ struct {
	body    ast.Expr
	pkg     string
	imports map[string]string
}

// declare notes the types of a file, and its lines.
func (m *measurer) declare(s *source) {
	l := m.lines[s.pkg]
	if s.test {
		l[1] += strings.Count(s.text, "\n")
	} else {
		l[0] += strings.Count(s.text, "\n")
	}
	m.lines[s.pkg] = l
	if s.test {
		return
	}
	imports := s.importNames()
	for _, d := range s.ast.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range g.Specs {
			if t, ok := spec.(*ast.TypeSpec); ok {
				m.types[s.pkg+"."+t.Name.Name] = typ{t.Type, s.pkg, imports}
			}
		}
	}
}

// packages: size and tests. A package of few lines may be tested by those who use it. Tests of capture that need
// PostgreSQL, and what carries out what was captured, have a package of their own.
func (m *measurer) packages() {
	const few, capture, captured = 100, "internal/capture", "internal/database/captest"
	if l, ok := m.lines[capture]; ok {
		m.lines[capture] = [2]int{l[0], l[1] + m.lines[captured][1]}
	}
	for pkg, l := range m.lines {
		if pkg == "internal/node" {
			m.figures[subject{"size", pkg, ""}] = l[0]
		}
		if layer, ok := layerOf(pkg); ok && layer.kind != test && pkg != "cmd/tutti" && l[0] >= few {
			m.figures[subject{"tests", pkg, ""}] = 100 * l[1] / l[0]
		}
	}
}

// columns counts the wide lines of a file. What lies inside a string of several lines is as wide
// as who reads it wants it; a word without a space, as an address, cannot be broken.
func (m *measurer) columns(s *source) {
	inside := map[int]bool{}
	ast.Inspect(s.ast, func(n ast.Node) bool {
		if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
			for i := s.fset.Position(l.Pos()).Line + 1; i <= s.fset.Position(l.End()).Line; i++ {
				inside[i] = true
			}
		}
		return true
	})
	wide := 0
	for i, line := range strings.Split(s.text, "\n") {
		if !inside[i+1] && width(line) > columnsMax && !unbreakable(line) {
			wide++
		}
	}
	m.figures[subject{"columns", s.pkg, ""}] += wide
}

// width is how many columns a line takes.
func width(line string) int {
	return utf8.RuneCountInString(line) + (tabColumns-1)*strings.Count(line, "\t")
}

// unbreakable: one word takes most of the line.
func unbreakable(line string) bool {
	for _, w := range strings.Fields(line) {
		if width(w) > columnsMax*3/4 {
			return true
		}
	}
	return false
}

// source takes the figures of one file's declarations.
func (m *measurer) source(s *source, retired []string) {
	here := func(t *ast.TypeSpec) typ { return m.types[s.pkg+"."+t.Name.Name] }
	for _, d := range s.ast.Decls {
		if f, ok := d.(*ast.FuncDecl); ok {
			name := f.Name.Name
			if recv := receiver(f); recv != "" {
				m.figures[subject{"methods", s.pkg, recv}]++
				name = recv + "." + name
			}
			key := subject{"branches", s.pkg, name}
			m.figures[key] = max(branches(f), m.figures[key])
		}
	}
	ast.Inspect(s.ast, func(n ast.Node) bool {
		if t, ok := n.(*ast.TypeSpec); ok && here(t).body == t.Type {
			switch body := t.Type.(type) {
			case *ast.StructType:
				m.figures[subject{"fields", s.pkg, t.Name.Name}] = m.fields(here(t), body, nil)
			case *ast.InterfaceType:
				m.figures[subject{"interface", s.pkg, t.Name.Name}] = m.methods(here(t), body)
			}
		}
		for _, id := range declares(n) {
			for _, w := range retired {
				if holdsWord(id, w) {
					m.figures[subject{"word", "tree", w}]++
				}
			}
		}
		return true
	})
}

// importNames says of each import by which name the file calls it.
func (s *source) importNames() map[string]string {
	out := map[string]string{}
	for _, i := range s.ast.Imports {
		p, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			panic(err) // the parser accepted it
		}
		name := path.Base(p)
		if i.Name != nil {
			name = i.Name.Name
		}
		out[name] = strings.TrimPrefix(p, module)
	}
	return out
}

// receiver names the type whose method f is.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	of := f.Recv.List[0].Type
	if p, ok := of.(*ast.StarExpr); ok {
		of = p.X
	}
	switch t := of.(type) {
	case *ast.IndexExpr:
		of = t.X
	case *ast.IndexListExpr:
		of = t.X
	}
	if id, ok := of.(*ast.Ident); ok {
		return id.Name
	}
	return ""
}

// branches counts the places where a function, closures in it included, may go two ways: if,
// for, each case but the default, && and ||.
func branches(f *ast.FuncDecl) (n int) {
	ast.Inspect(f, func(x ast.Node) bool {
		switch x := x.(type) {
		case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt:
			n++
		case *ast.CaseClause:
			if x.List != nil {
				n++
			}
		case *ast.CommClause:
			if x.Comm != nil {
				n++
			}
		case *ast.BinaryExpr:
			if x.Op == token.LAND || x.Op == token.LOR {
				n++
			}
		}
		return true
	})
	return n
}

// embedded finds a type of ours that one of t embeds, by value or by pointer.
func (m *measurer) embedded(t typ, field ast.Expr) typ {
	if p, ok := field.(*ast.StarExpr); ok {
		field = p.X
	}
	switch f := field.(type) {
	case *ast.Ident:
		return m.types[t.pkg+"."+f.Name]
	case *ast.SelectorExpr:
		if x, ok := f.X.(*ast.Ident); ok {
			return m.types[t.imports[x.Name]+"."+f.Sel.Name]
		}
	}
	return typ{}
}

// fields counts what a value of the type can be asked for by one dot: its own fields, and those
// of what it embeds. A structure without a name counts by its fields.
func (m *measurer) fields(t typ, body *ast.StructType, seen []*ast.StructType) (n int) {
	if slices.Contains(seen, body) {
		return 0
	}
	seen = append(seen, body)
	for _, f := range body.Fields.List {
		if nested, ok := f.Type.(*ast.StructType); ok {
			n += len(f.Names) * m.fields(t, nested, seen)
			continue
		}
		n += max(1, len(f.Names))
		if len(f.Names) == 0 {
			e := m.embedded(t, f.Type)
			if s, ok := e.body.(*ast.StructType); ok {
				n += m.fields(e, s, seen) - 1
			}
		}
	}
	return n
}

// methods counts those of an interface, and of the interfaces of ours that it embeds.
func (m *measurer) methods(t typ, body *ast.InterfaceType) (n int) {
	for _, f := range body.Methods.List {
		n += max(1, len(f.Names))
		if len(f.Names) == 0 {
			e := m.embedded(t, f.Type)
			if i, ok := e.body.(*ast.InterfaceType); ok {
				n += m.methods(e, i) - 1
			}
		}
	}
	return n
}

// declares lists what a node declares: functions, types, fields.
func declares(n ast.Node) (out []string) {
	switch n := n.(type) {
	case *ast.FuncDecl:
		out = append(out, n.Name.Name)
	case *ast.TypeSpec:
		out = append(out, n.Name.Name)
		if s, ok := n.Type.(*ast.StructType); ok {
			for _, f := range s.Fields.List {
				for _, id := range f.Names {
					out = append(out, id.Name)
				}
			}
		}
	}
	return out
}

// holdsWord: one of the parts of a name is the word, or its plural.
func holdsWord(name, word string) bool {
	part := ""
	for i, r := range name + "A" {
		if i > 0 && unicode.IsUpper(r) {
			if part == word || part == word+"s" {
				return true
			}
			part = ""
		}
		part += string(unicode.ToLower(r))
	}
	return false
}

var glossaryRow = regexp.MustCompile(`^\| ([^|]+) \| ([^|]+) \|$`)

// glossaryWords reads the table of words, and the one of retired words below "## Retired".
func glossaryWords(page string) (words, retired []string) {
	now, old, _ := strings.Cut(page, "\n## Retired")
	for i, part := range []string{now, old} {
		for line := range strings.Lines(part) {
			m := glossaryRow.FindStringSubmatch(strings.TrimSpace(line))
			if m == nil || m[1] == "Word" || strings.HasPrefix(m[1], "-") {
				continue
			}
			for _, w := range strings.Split(m[1], ", ") {
				w = strings.ReplaceAll(w, " ", "")
				if i == 0 {
					words = append(words, w)
				} else {
					retired = append(retired, w)
				}
			}
		}
	}
	return words, retired
}
