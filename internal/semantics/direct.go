package semantics

import (
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Verb is what a Direct does.
type Verb uint8

const (
	Insert Verb = iota + 1
	Update
	Delete
)

// Direct is a statement that changes rows of one table and, as far as its text tells, does nothing
// else: no user-written function can be called by it.
type Direct struct {
	Verb     Verb
	Relation string   // the table, as SQL
	Alias    string   // the name of the table in the statement's expressions, unquoted
	Sets     []string // the columns an Update sets, unquoted
	Columns  []string // what it names as columns, unquoted; one that is none may be a function, or the whole row
	Text     string   // the statement, without what follows its last word
	Literals bool     // its parameters stand for literals of a client's text, see Parametrized
}

// DirectOf finds out whether sql is one direct statement without RETURNING.
func DirectOf(sql string) (Direct, bool) {
	if !single(sql) {
		return Direct{}, false
	}
	tree, err := pg.Parse(sql)
	if err != nil || len(tree.Stmts) != 1 {
		return Direct{}, false
	}
	d := Direct{Text: strings.TrimRight(sql, "; \t\r\n")}
	var rel *pg.RangeVar
	switch n := tree.Stmts[0].Stmt; {
	case n.GetInsertStmt() != nil:
		s := n.GetInsertStmt()
		values := s.SelectStmt.GetSelectStmt()
		if s.OnConflictClause != nil || len(s.ReturningList) > 0 || s.WithClause != nil || s.SelectStmt != nil && (values == nil || len(values.ValuesLists) == 0) {
			return Direct{}, false
		}
		d.Verb, rel = Insert, s.Relation
	case n.GetUpdateStmt() != nil:
		s := n.GetUpdateStmt()
		if len(s.FromClause) > 0 || len(s.ReturningList) > 0 || s.WithClause != nil {
			return Direct{}, false
		}
		for _, t := range s.TargetList {
			d.Sets = append(d.Sets, t.GetResTarget().GetName())
		}
		d.Verb, rel = Update, s.Relation
	case n.GetDeleteStmt() != nil:
		s := n.GetDeleteStmt()
		if len(s.UsingClause) > 0 || len(s.ReturningList) > 0 || s.WithClause != nil {
			return Direct{}, false
		}
		d.Verb, rel = Delete, s.Relation
	}
	if rel == nil || rel.Catalogname != "" || !harmless(tree.Stmts[0].Stmt.ProtoReflect()) {
		return Direct{}, false
	}
	walk(tree.Stmts[0].Stmt.ProtoReflect(), func(m protoreflect.Message) {
		if c, ok := m.Interface().(*pg.ColumnRef); ok {
			d.Columns = append(d.Columns, c.Fields[len(c.Fields)-1].GetString_().GetSval())
		}
	})
	d.Relation, d.Alias = quote(rel.Relname), rel.Relname
	if rel.Schemaname != "" {
		d.Relation = quote(rel.Schemaname) + "." + d.Relation
	}
	if rel.Alias != nil {
		d.Alias = rel.Alias.Aliasname
	}
	return d, true
}

// harmlessNodes are the parts of a statement that call nothing but PostgreSQL's own code, given
// that its operators and casts are PostgreSQL's own, too.
var harmlessNodes = map[protoreflect.Name]bool{
	"Node": true, "InsertStmt": true, "UpdateStmt": true, "DeleteStmt": true, "SelectStmt": true, "RangeVar": true, "Alias": true,
	"ResTarget": true, "List": true, "ColumnRef": true, "ParamRef": true, "A_Const": true, "Integer": true, "Float": true, "Boolean": true,
	"String": true, "BitString": true, "A_Expr": true, "BoolExpr": true, "NullTest": true, "BooleanTest": true, "TypeCast": true, "TypeName": true,
	"CaseExpr": true, "CaseWhen": true, "CoalesceExpr": true, "MinMaxExpr": true, "SetToDefault": true, "SQLValueFunction": true,
	"A_ArrayExpr": true,
}

// harmless refuses everything that is looked up by a name that may come to mean something of a
// user's: functions, and types that the grammar does not know as its own.
func harmless(m protoreflect.Message) bool {
	ok := true
	walk(m, func(m protoreflect.Message) {
		ok = ok && harmlessNodes[m.Descriptor().Name()]
		switch n := m.Interface().(type) {
		case *pg.TypeName:
			ok = ok && len(n.Names) == 2 && n.Names[0].GetString_().GetSval() == "pg_catalog"
		case *pg.A_Expr:
			ok = ok && (len(n.Name) == 1 || n.Name[0].GetString_().GetSval() == "pg_catalog")
		}
	})
	return ok
}
