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
	Clock      Clock   // column = when the transaction began
}

// Clock is how a statement says when its transaction began.
type Clock uint8

const (
	NoClock    Clock = iota
	StampClock       // with a time zone: CURRENT_TIMESTAMP, now()
	LocalClock       // LOCALTIMESTAMP
)

// clock is what a node says of that.
func clock(n *pg.Node) Clock {
	switch f := n.GetFuncCall(); {
	case n.GetSqlvalueFunction().GetOp() == pg.SQLValueFunctionOp_SVFOP_CURRENT_TIMESTAMP:
		return StampClock
	case n.GetSqlvalueFunction().GetOp() == pg.SQLValueFunctionOp_SVFOP_LOCALTIMESTAMP:
		return LocalClock
	case f != nil && len(f.Args) == 0 && oneOf(f.Funcname, []string{"now", "transaction_timestamp"}) && directly(f):
		return StampClock
	}
	return NoClock
}

// changes notes what an UPDATE makes of columns of rows that it finds by columns alone, if that depends on nothing but
// parameters, constants, and for what is added the column itself; and what it adds, if it does nothing else.
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
		if !c.takes(target.Val) {
			add, ok := addOf(target, alias)
			if !ok {
				return
			}
			c.Add, c.Minus, c.Value = true, add.Minus, add.By
			adds = append(adds, add)
		}
		changes = append(changes, c)
	}
	if d.Changes, d.Finds = changes, finds; len(adds) == len(changes) {
		d.Adds = adds
	}
}

// takes notes the value of a change that is a parameter or a constant.
func (c *Change) takes(n *pg.Node) bool {
	value, ok := addend(n)
	k := n.GetAConst()
	switch {
	case ok:
		c.Value = value
	case k.GetSval() != nil:
		text := k.GetSval().GetSval()
		c.Text = &text
	case clock(n) != NoClock:
		c.Clock = clock(n)
	case k.GetBoolval() != nil:
		yes := k.GetBoolval().GetBoolval()
		c.Bool = &yes
	default:
		return false
	}
	return true
}

// fills notes what an INSERT gives to the columns that it names, if it makes one row of parameters and constants.
func (d *Direct) fills(s *pg.InsertStmt) {
	from := s.SelectStmt.GetSelectStmt()
	lists := from.GetValuesLists()
	if len(lists) != 1 || s.Override != pg.OverridingKind_OVERRIDING_NOT_SET || from.LimitCount != nil ||
		from.LimitOffset != nil || len(from.SortClause) > 0 {
		return
	}
	values := lists[0].GetList().GetItems()
	if len(values) != len(s.Cols) {
		return
	}
	var changes []Change
	for i, n := range s.Cols {
		c := Change{Column: n.GetResTarget().GetName()}
		if len(n.GetResTarget().GetIndirection()) > 0 || !c.takes(values[i]) {
			return
		}
		changes = append(changes, c)
	}
	d.Changes = changes
}
