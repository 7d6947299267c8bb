package semantics

import (
	pg "github.com/pganalyze/pg_query_go/v6"
)

// Change is column = Value, or column = column + Value, or minus if Minus is true.
type Change struct {
	Column     string
	Add, Minus bool
	Value      Addend
	Text       *string // not nil: column = this string
	Bool       *bool   // not nil: column = true, or false
}

// changes notes what an UPDATE makes of columns of rows that it finds by columns alone, if that depends on nothing but parameters, constants, and for what is
// added the column itself; and what it adds, if it does nothing else.
func (d *Direct) changes(u *pg.UpdateStmt) {
	alias := tableAlias(u.Relation)
	finds, ok := findsOf(u.WhereClause, alias)
	if !ok {
		return
	}
	var changes []Change
	var adds []Add
	for _, t := range u.TargetList {
		target := t.GetResTarget()
		if target == nil || len(target.Indirection) > 0 {
			return
		}
		c := Change{Column: target.Name}
		if value, ok := addend(target.Val); ok {
			c.Value = value
		} else if k := target.Val.GetAConst(); k.GetSval() != nil {
			text := k.GetSval().GetSval()
			c.Text = &text
		} else if k.GetBoolval() != nil {
			yes := k.GetBoolval().GetBoolval()
			c.Bool = &yes
		} else if add, ok := addOf(target, alias); ok {
			c.Add, c.Minus, c.Value = true, add.Minus, add.By
			adds = append(adds, add)
		} else {
			return
		}
		changes = append(changes, c)
	}
	if d.Changes, d.Finds = changes, finds; len(adds) == len(changes) {
		d.Adds = adds
	}
}
