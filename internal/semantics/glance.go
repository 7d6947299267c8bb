package semantics

import (
	"slices"

	pg "github.com/pganalyze/pg_query_go/v6"
)

// Glance is a SELECT of columns of one table, of rows that it finds by columns alone.
type Glance struct {
	Relation string // the table, as SQL
	Alias    string // the name of the table in the statement's expressions, unquoted
	Columns  []string
	Finds    []Find
	// Text is the statement between SELECT and the table, and what follows the table and its alias.
	Text [2]string
}

// GlanceOf finds out whether sql is a Glance.
func GlanceOf(sql string) (Glance, bool) {
	if !single(sql) {
		return Glance{}, false
	}
	tree, err := parse(sql)
	if err != nil || len(tree.Stmts) != 1 {
		return Glance{}, false
	}
	s := tree.Stmts[0].Stmt.GetSelectStmt()
	if s == nil || len(s.FromClause) != 1 || s.Op != pg.SetOperation_SETOP_NONE || s.WithClause != nil ||
		s.IntoClause != nil || len(s.LockingClause)+len(s.DistinctClause)+
		len(s.GroupClause)+len(s.SortClause)+len(s.WindowClause)+len(s.ValuesLists) > 0 || s.HavingClause != nil ||
		s.LimitOffset != nil || !limited(s.LimitCount) {
		return Glance{}, false
	}
	rel := s.FromClause[0].GetRangeVar()
	if rel == nil || !rel.Inh || rel.Catalogname != "" || len(rel.Alias.GetColnames()) > 0 {
		return Glance{}, false
	}
	l := Glance{Alias: tableAlias(rel), Relation: quote(rel.Relname)}
	if rel.Schemaname != "" {
		l.Relation = quote(rel.Schemaname) + "." + l.Relation
	}
	for _, t := range s.TargetList {
		c := t.GetResTarget().GetVal().GetColumnRef()
		switch {
		case len(c.GetFields()) == 1 && allColumns(c):
		case columnName(t.GetResTarget().GetVal(), l.Alias) == "" || len(t.GetResTarget().GetIndirection()) > 0:
			return Glance{}, false
		default:
			l.Columns = append(l.Columns, columnName(t.GetResTarget().GetVal(), l.Alias))
		}
	}
	var ok bool
	if l.Finds, ok = findsOf(s.WhereClause, l.Alias); !ok || len(s.TargetList) == 0 {
		return Glance{}, false
	}
	return l, l.parts(sql, rel)
}

// limited reports whether a LIMIT lets one row pass.
func limited(n *pg.Node) bool {
	if n == nil {
		return true
	}
	a, ok := addend(n)
	return ok && a.Parameter == 0 && a.Value > 0
}

// parts takes the text apart at the table; false if it is not found as it was read.
func (l *Glance) parts(sql string, rel *pg.RangeVar) bool {
	x := scanner{sql: sql}
	if x.next(); !x.is("select") {
		return false
	}
	from := x.to
	if x.next(); x.is("all") {
		return false
	}
	for ; x.kind != 0 && !x.is("from"); x.next() {
	}
	if x.next(); x.from != int(rel.Location) {
		return false
	}
	l.Text[0] = sql[from:x.from]
	names := 1
	if rel.Schemaname != "" {
		names = 2
	}
	for i := range names {
		if i > 0 {
			if x.kind != '.' {
				return false
			}
			x.next()
		}
		if !slices.Contains([]byte{wordToken, quotedToken}, x.kind) {
			return false
		}
		x.next()
	}
	if rel.Alias != nil {
		if x.is("as") {
			x.next()
		}
		x.next()
	}
	l.Text[1] = sql[x.from:]
	return x.is("where")
}
