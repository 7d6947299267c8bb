package semantics

import (
	"slices"
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
	Text     string   // the statement, without RETURNING and what follows its last word
	Returns  string   // what RETURNING lists, as SQL; empty if there is none
	Literals bool     // its parameters stand for literals of a client's text, see Parametrized

	// Adds are what an Update does, if it does nothing but add integers to columns of rows that it finds by Finds
	// alone.
	Adds  []Add
	Finds []Find

	// Row is how an Update or a Delete names the rows that it changes; nil if it does otherwise.
	Row *RowName

	// Changes are what an Update does to the row that Finds names, if that depends on nothing it has to see; and what
	// an Insert of one row gives to all columns that it names. A Delete of such a row has Finds alone.
	Changes []Change

	// Calls are functions that it calls, of directFunctions, if nobody has written others of these names.
	Calls []string

	// Strings is true if there are strings in the text: what they are is settled when the statement is prepared. They
	// may be of the types of Columns, Sets, Inserts (nil: all columns of the table), of Casts (names of PostgreSQL's
	// own types), or of the time if Clock is true.
	Strings bool
	Inserts []string
	Casts   []string
	Clock   bool
	Types   []uint32 // of parameters, as far as they are prescribed; whoever has them sets it

	// Folds is true if an operator has nothing but constants or parameters for operands, see folds.
	Folds bool
}

// DirectOf finds out whether sql is one direct statement.
func DirectOf(sql string) (Direct, bool) {
	if !single(sql) {
		return Direct{}, false
	}
	tree, err := parse(sql)
	if err != nil || len(tree.Stmts) != 1 {
		return Direct{}, false
	}
	d := Direct{Text: strings.TrimRight(sql, "; \t\r\n")}
	var rel *pg.RangeVar
	var returning []*pg.Node
	switch n := tree.Stmts[0].Stmt; {
	case n.GetInsertStmt() != nil:
		s := n.GetInsertStmt()
		values := s.SelectStmt.GetSelectStmt()
		if s.OnConflictClause != nil || s.WithClause != nil ||
			s.SelectStmt != nil && (values == nil || len(values.ValuesLists) == 0) {
			return Direct{}, false
		}
		d.Verb, rel, returning = Insert, s.Relation, s.ReturningList
		for _, c := range s.Cols {
			d.Inserts = append(d.Inserts, c.GetResTarget().GetName())
		}
		d.fills(s)
	case n.GetUpdateStmt() != nil:
		s := n.GetUpdateStmt()
		if len(s.FromClause) > 0 || s.WithClause != nil {
			return Direct{}, false
		}
		for _, t := range s.TargetList {
			d.Sets = append(d.Sets, t.GetResTarget().GetName())
		}
		d.Verb, rel, returning = Update, s.Relation, s.ReturningList
		d.Row = rowNameOf(rel, s.WhereClause)
		d.changes(s)
	case n.GetDeleteStmt() != nil:
		s := n.GetDeleteStmt()
		if len(s.UsingClause) > 0 || s.WithClause != nil {
			return Direct{}, false
		}
		d.Verb, rel, returning = Delete, s.Relation, s.ReturningList
		d.Row = rowNameOf(rel, s.WhereClause)
		if finds, ok := findsOf(s.WhereClause, tableAlias(s.Relation)); ok {
			d.Finds = finds
		}
	}
	if rel == nil || rel.Catalogname != "" || !harmless(tree.Stmts[0].Stmt.ProtoReflect()) {
		return Direct{}, false
	}
	if len(returning) > 0 && !d.returning() {
		return Direct{}, false
	}
	if !d.names(tree.Stmts[0].Stmt, returning) {
		return Direct{}, false
	}
	d.Folds = folds(tree.Stmts[0].Stmt.ProtoReflect())
	d.Relation, d.Alias = quote(rel.Relname), tableAlias(rel)
	if rel.Schemaname != "" {
		d.Relation = quote(rel.Schemaname) + "." + d.Relation
	}
	return d, true
}

// names notes what a statement names and what its strings may be; false if it names the whole row as *, which RETURNING
// alone may list.
func (d *Direct) names(n *pg.Node, returning []*pg.Node) bool {
	stars := 0
	for _, n := range returning {
		if allColumns(n.GetResTarget().GetVal().GetColumnRef()) {
			stars--
		}
	}
	walk(n.ProtoReflect(), func(m protoreflect.Message) {
		switch v := m.Interface().(type) {
		case *pg.ColumnRef:
			if allColumns(v) {
				stars++
			} else {
				d.Columns = append(d.Columns, v.Fields[len(v.Fields)-1].GetString_().GetSval())
			}
		case *pg.A_Const:
			d.Strings = d.Strings || v.GetSval() != nil
		case *pg.TypeCast:
			d.Casts = append(d.Casts, v.TypeName.Names[len(v.TypeName.Names)-1].GetString_().GetSval())
		case *pg.SQLValueFunction:
			d.Clock = true
		case *pg.FuncCall:
			d.Clock = true // its arguments may be of any types
			d.Calls = append(d.Calls, v.Funcname[len(v.Funcname)-1].GetString_().GetSval())
		}
	})
	return stars == 0
}

// allColumns reports whether a reference is * or t.*.
func allColumns(c *pg.ColumnRef) bool {
	return c != nil && c.Fields[len(c.Fields)-1].GetAStar() != nil
}

// returning takes RETURNING and its list off the text; false if it is not found.
func (d *Direct) returning() bool {
	x, depth := scanner{sql: d.Text}, 0
	for x.next(); x.kind != 0; x.next() {
		switch {
		case x.kind == '(':
			depth++
		case x.kind == ')':
			depth--
		case depth == 0 && x.is("returning"):
			d.Text, d.Returns = d.Text[:x.from], strings.TrimSpace(d.Text[x.to:])
			return true
		}
	}
	return false
}

// harmlessNodes are the parts of a statement that call nothing but PostgreSQL's own code, given
// that its operators and casts are PostgreSQL's own, too.
var harmlessNodes = map[protoreflect.Name]bool{
	"Node": true, "InsertStmt": true, "UpdateStmt": true, "DeleteStmt": true, "SelectStmt": true, "RangeVar": true,
	"Alias":     true,
	"ResTarget": true, "List": true, "ColumnRef": true, "ParamRef": true, "A_Const": true, "Integer": true,
	"Float": true, "Boolean": true,
	"String": true, "BitString": true, "A_Expr": true, "BoolExpr": true, "NullTest": true, "BooleanTest": true,
	"TypeCast": true, "TypeName": true,
	"CaseExpr": true, "CaseWhen": true, "CoalesceExpr": true, "MinMaxExpr": true, "SetToDefault": true,
	"SQLValueFunction": true,
	"A_ArrayExpr":      true, "A_Star": true,
}

// directFunctions run no code but PostgreSQL's own, if nobody has written others of the same names, and leave nothing
// behind.
var directFunctions = []string{
	"now", "clock_timestamp", "statement_timestamp", "transaction_timestamp", "random", "gen_random_uuid", "lower",
	"upper", "length", "abs", "round", "ceil", "floor",
	"concat", "substring", "btrim", "ltrim", "rtrim", "replace", "to_char", "date_trunc", "date_part", "extract", "mod",
	"power",
}

// oneOf reports whether a function's name, alone or in pg_catalog, is one of these.
func oneOf(name []*pg.Node, functions []string) bool {
	return (len(name) == 1 || len(name) == 2 && name[0].GetString_().GetSval() == "pg_catalog") &&
		slices.Contains(functions, name[len(name)-1].GetString_().GetSval())
}

// directly reports whether a call is of one of directFunctions, and nothing but that.
func directly(f *pg.FuncCall) bool {
	return oneOf(f.Funcname, directFunctions) &&
		len(f.AggOrder) == 0 && f.AggFilter == nil && f.Over == nil && !f.AggWithinGroup && !f.AggStar &&
		!f.AggDistinct && !f.FuncVariadic
}

// harmless refuses everything that is looked up by a name that may come to mean something of a
// user's: functions but a few, and types that the grammar does not know as its own.
func harmless(m protoreflect.Message) bool {
	ok := true
	walk(m, func(m protoreflect.Message) {
		f, calls := m.Interface().(*pg.FuncCall)
		ok = ok && (harmlessNodes[m.Descriptor().Name()] || calls && directly(f))
		switch n := m.Interface().(type) {
		case *pg.TypeName:
			ok = ok && len(n.Names) == 2 && n.Names[0].GetString_().GetSval() == "pg_catalog"
		case *pg.A_Expr:
			ok = ok && (len(n.Name) == 1 || n.Name[0].GetString_().GetSval() == "pg_catalog") && !comparesNull(n)
		}
	})
	return ok
}

// comparesNull reports whether an expression means what transform_null_equals says when it is parsed.
func comparesNull(n *pg.A_Expr) bool {
	return n.Name[len(n.Name)-1].GetString_().GetSval() == "=" &&
		(n.Lexpr.GetAConst().GetIsnull() || n.Rexpr.GetAConst().GetIsnull())
}

// folds reports whether an operator has nothing but constants or parameters for operands. PostgreSQL computes that with
// constants when it plans, also where no row is met.
func folds(m protoreflect.Message) (some bool) {
	constant := func(n *pg.Node) bool {
		for n.GetTypeCast() != nil {
			n = n.GetTypeCast().Arg
		}
		return n == nil || n.GetAConst() != nil || n.GetParamRef() != nil
	}
	walk(m, func(m protoreflect.Message) {
		if n, ok := m.Interface().(*pg.A_Expr); ok {
			some = some || constant(n.Lexpr) && constant(n.Rexpr)
		}
	})
	return some
}
