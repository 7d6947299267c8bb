package semantics

import (
	"slices"
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"
)

// Addend is an integer in a statement, or the parameter with a number.
type Addend struct {
	Parameter int // from 1; zero: Value
	Value     int64
}

// Add is column = column + By, or minus if Minus is true.
type Add struct {
	Column string
	By     Addend
	Minus  bool
}

// Find is column = Value in a condition.
type Find struct {
	Column string
	Value  Addend
}

// RowName is how a statement names rows of one table: by equalities that all must hold, by column. Of two statements
// with equal ones the rows are the same, if the tables of that name are.
type RowName struct {
	Relation string // without its schema
	Finds    []Find
}

// rowNameOf makes one of a condition; nil if it is none.
func rowNameOf(r *pg.RangeVar, where *pg.Node) *RowName {
	finds, ok := findsOf(where, tableAlias(r))
	if !ok {
		return nil
	}
	slices.SortStableFunc(finds, func(a, b Find) int { return strings.Compare(a.Column, b.Column) })
	return &RowName{r.Relname, finds}
}

// tableAlias is the name that a statement has for a table.
func tableAlias(r *pg.RangeVar) string {
	if r.Alias != nil {
		return r.Alias.Aliasname
	}
	return r.Relname
}

// addOf is what a target adds to its column, if it does that.
func addOf(target *pg.ResTarget, alias string) (a Add, ok bool) {
	e := target.GetVal().GetAExpr()
	if target == nil || len(target.Indirection) > 0 || e == nil || e.Kind != pg.A_Expr_Kind_AEXPR_OP ||
		len(e.Name) != 1 {
		return Add{}, false
	}
	a = Add{Column: target.Name}
	column, by := e.Lexpr, e.Rexpr
	switch e.Name[0].GetString_().GetSval() {
	case "-":
		a.Minus = true
	case "+":
		if columnName(column, alias) == "" {
			column, by = by, column
		}
	default:
		return Add{}, false
	}
	a.By, ok = addend(by)
	return a, ok && columnName(column, alias) == a.Column
}

// findsOf reads a condition of equalities that all must hold.
func findsOf(n *pg.Node, alias string) (finds []Find, ok bool) {
	if b := n.GetBoolExpr(); b != nil && b.Boolop == pg.BoolExprType_AND_EXPR {
		for _, a := range b.Args {
			more, ok := findsOf(a, alias)
			if !ok {
				return nil, false
			}
			finds = append(finds, more...)
		}
		return finds, true
	}
	e := n.GetAExpr()
	if e == nil || e.Kind != pg.A_Expr_Kind_AEXPR_OP || len(e.Name) != 1 || e.Name[0].GetString_().GetSval() != "=" {
		return nil, false
	}
	column, value := e.Lexpr, e.Rexpr
	if columnName(column, alias) == "" {
		column, value = value, column
	}
	f := Find{Column: columnName(column, alias)}
	f.Value, ok = addend(value)
	return []Find{f}, ok && f.Column != ""
}

// columnName is the column that a node names, of the table with an alias; empty if it is none.
func columnName(n *pg.Node, alias string) string {
	c := n.GetColumnRef()
	if c == nil || len(c.Fields) > 2 || len(c.Fields) == 2 && c.Fields[0].GetString_().GetSval() != alias {
		return ""
	}
	return c.Fields[len(c.Fields)-1].GetString_().GetSval()
}

func addend(n *pg.Node) (Addend, bool) {
	if p := n.GetParamRef(); p != nil {
		return Addend{Parameter: int(p.Number)}, p.Number > 0
	}
	c := n.GetAConst()
	if c == nil || c.Isnull {
		return Addend{}, false
	}
	if i, ok := c.Val.(*pg.A_Const_Ival); ok {
		return Addend{Value: int64(i.Ival.GetIval())}, true
	}
	return Addend{}, false
}
