package semantics

import (
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// call is a function call somewhere in a statement.
type call struct {
	schema string // as written, or empty
	name   string // unqualified, lower case as the grammar folded it
	args   []*pg.Node
}

// functions lists every function call below m, in tree order.
func functions(m protoreflect.Message) []call {
	var out []call
	walk(m, func(m protoreflect.Message) {
		if f, ok := m.Interface().(*pg.FuncCall); ok && len(f.Funcname) > 0 {
			c := call{name: f.Funcname[len(f.Funcname)-1].GetString_().GetSval(), args: f.Args}
			if len(f.Funcname) > 1 {
				c.schema = f.Funcname[len(f.Funcname)-2].GetString_().GetSval()
			}
			out = append(out, c)
		}
	})
	return out
}

// relations lists the tables, views and sequences a statement names, as SQL would.
func relations(n *pg.Node) []string {
	var out []string
	for _, r := range rangeVars(n) {
		out = append(out, rangeName(r))
	}
	return out
}

// rangeVars are the names of relations in a statement.
func rangeVars(n *pg.Node) (out []*pg.RangeVar) {
	walk(n.ProtoReflect(), func(m protoreflect.Message) {
		if r, ok := m.Interface().(*pg.RangeVar); ok {
			out = append(out, r)
		}
	})
	return out
}

func tableLock(n *pg.Node, l *pg.LockStmt) *TableLock {
	out := &TableLock{Relations: relations(n), Mode: l.Mode, NoWait: l.Nowait}
	if len(l.Relations) > 0 {
		out.First = l.Relations[0].GetRangeVar().GetRelname()
	}
	return out
}

// rangeName is a relation's name as written, quoted.
func rangeName(r *pg.RangeVar) string {
	if r.GetSchemaname() != "" {
		return quote(r.Schemaname) + "." + quote(r.Relname)
	}
	return quote(r.GetRelname())
}

func quote(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }

// protectedSet finds a SET of a protected setting anywhere below n: a clause of a function or
// of ALTER ROLE.
func protectedSet(n *pg.Node) (name string, found bool) {
	walk(n.ProtoReflect(), func(m protoreflect.Message) {
		if v, ok := m.Interface().(*pg.VariableSetStmt); ok && protectedSetting(v.Name) {
			name, found = v.Name, true
		}
	})
	return name, found
}

// hasNode reports whether a node of one of the named types is below m.
func hasNode(m protoreflect.Message, names ...string) bool {
	found := false
	walk(m, func(m protoreflect.Message) {
		for _, n := range names {
			found = found || string(m.Descriptor().Name()) == n
		}
	})
	return found
}

// walk visits m and everything below it in field order. A message with a choice has no other fields that are messages:
// a Node has hundreds to choose from, and one of them.
func walk(m protoreflect.Message, visit func(protoreflect.Message)) {
	visit(m)
	if choices := m.Descriptor().Oneofs(); choices.Len() > 0 {
		for i := 0; i < choices.Len(); i++ {
			if f := m.WhichOneof(choices.Get(i)); f != nil && f.Kind() == protoreflect.MessageKind {
				walk(m.Get(f).Message(), visit)
			}
		}
		return
	}
	fields := m.Descriptor().Fields()
	for i := 0; i < fields.Len(); i++ {
		f := fields.Get(i)
		if f.Kind() != protoreflect.MessageKind || !m.Has(f) {
			continue
		}
		if !f.IsList() {
			walk(m.Get(f).Message(), visit)
			continue
		}
		l := m.Get(f).List()
		for j := 0; j < l.Len(); j++ {
			walk(l.Get(j).Message(), visit)
		}
	}
}

// stringConst returns the value of a string literal.
func stringConst(n *pg.Node) (string, bool) {
	if t := n.GetTypeCast(); t != nil {
		return stringConst(t.Arg)
	}
	if s := n.GetString_(); s != nil {
		return s.Sval, true
	}
	if s := n.GetAConst().GetSval(); s != nil {
		return s.Sval, true
	}
	return "", false
}

func intConst(n *pg.Node) int32 {
	if i := n.GetInteger(); i != nil {
		return i.Ival
	}
	return n.GetAConst().GetIval().GetIval()
}
