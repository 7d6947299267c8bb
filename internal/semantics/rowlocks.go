package semantics

import (
	"slices"
	"strings"
	"unicode/utf8"

	pg "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// RowLocks says which rows a SELECT … FOR UPDATE or FOR SHARE has locked: its Text is the statement with
// one more column at the end, which names them, as RowLocks.Read takes it.
type RowLocks struct {
	Text  string
	At    int      // characters of the statement before what was put in
	More  int      // characters put in
	Names []string // of the relations, as the statement has them, unqualified and unquoted
	Row   *RowName // how it names the rows; nil if it does otherwise
	share []bool   // per relation: FOR SHARE
}

// Followed reports whether the statement tells which rows it has locked.
func (l *RowLocks) Followed() bool { return l != nil && l.Text != "" }

// locksOf makes the RowLocks of a SELECT that has a locking clause anywhere; nil for others.
func locksOf(n *pg.SelectStmt, sql string) *RowLocks {
	l := rowLocks(n, sql)
	if l != nil || !mentionsLocks(sql) {
		return l
	}
	walk(n.ProtoReflect(), func(m protoreflect.Message) {
		if _, is := m.Interface().(*pg.LockingClause); is {
			l = &RowLocks{}
		}
	})
	return l
}

// LockedRow is where a row is that was locked: the table's OID and the row's ctid, as text. Without Place it is
// the whole table.
type LockedRow struct {
	Table, Place string
	Share        bool
}

// lockedColumn is put in for each relation.
const lockedColumn = "pg_catalog.concat("

// rowLocks makes the RowLocks of a SELECT at the top of a statement; nil if it locks no rows, or in
// a way that cannot be followed: rows of sub-selects, of WITH queries, below an alias for a join.
func rowLocks(n *pg.SelectStmt, sql string) *RowLocks {
	if len(n.LockingClause) == 0 || !utf8.ValidString(sql) {
		return nil
	}
	var from []*pg.RangeVar
	if !ranges(n.FromClause, &from) {
		return nil
	}
	with := map[string]bool{}
	for _, c := range n.WithClause.GetCtes() {
		with[c.GetCommonTableExpr().GetCtename()] = true
	}
	l := &RowLocks{}
	var columns []string
	for _, r := range from {
		if r.Schemaname == "" && with[r.Relname] {
			continue
		}
		name := r.Relname
		if r.Alias != nil {
			name = r.Alias.Aliasname
		}
		strength := strongest(n.LockingClause, name)
		if strength <= pg.LockClauseStrength_LCS_FORKEYSHARE { // it would only keep the row from going
			continue
		}
		l.Names = append(l.Names, r.Relname)
		l.share = append(l.share, strength == pg.LockClauseStrength_LCS_FORSHARE)
		columns = append(columns, quote(name)+".tableoid, ' ', "+quote(name)+".ctid")
	}
	if len(columns) == 0 {
		return nil
	}
	column := lockedColumn + strings.Join(columns, ", ' ', ") + ") "
	if len(n.TargetList) > 0 {
		column = ", " + column
	}
	at := fromAt(sql, n.WithClause != nil)
	if at < 0 {
		return nil
	}
	l.Text = sql[:at] + column + sql[at:]
	l.At, l.More = utf8.RuneCountInString(sql[:at]), utf8.RuneCountInString(column)
	if !l.fits(len(n.TargetList)) {
		return nil
	}
	l.names(from, n)
	return l
}

// names notes how a SELECT from relations names the rows of the only one that it locks to change them.
func (l *RowLocks) names(from []*pg.RangeVar, n *pg.SelectStmt) {
	if len(from) == 1 && !l.share[0] && waits(n.LockingClause) {
		l.Row = rowNameOf(from[0], n.WhereClause)
	}
}

// waits reports whether no locking clause says NOWAIT or SKIP LOCKED.
func waits(clauses []*pg.Node) bool {
	return !slices.ContainsFunc(clauses, func(c *pg.Node) bool {
		return c.GetLockingClause().GetWaitPolicy() != pg.LockWaitPolicy_LockWaitBlock
	})
}

// fits reports whether the text has become what it should: a SELECT with one column more.
func (l *RowLocks) fits(columns int) bool {
	tree, err := parse(l.Text)
	if err != nil || len(tree.Stmts) != 1 {
		return false
	}
	list := tree.Stmts[0].Stmt.GetSelectStmt().GetTargetList()
	if len(list) != columns+1 {
		return false
	}
	f := list[columns].GetResTarget().GetVal().GetFuncCall()
	return f != nil && len(f.Args) == 4*len(l.Names)-1
}

// ranges gathers the relations of a FROM clause. False if an alias hides some.
func ranges(list []*pg.Node, out *[]*pg.RangeVar) bool {
	for _, n := range list {
		switch v := n.GetNode().(type) {
		case *pg.Node_RangeVar:
			*out = append(*out, v.RangeVar)
		case *pg.Node_JoinExpr:
			if v.JoinExpr.Alias != nil || !ranges([]*pg.Node{v.JoinExpr.Larg, v.JoinExpr.Rarg}, out) {
				return false
			}
		}
	}
	return true
}

// strongest is how the relation with a name is locked.
func strongest(clauses []*pg.Node, name string) (out pg.LockClauseStrength) {
	for _, c := range clauses {
		l := c.GetLockingClause()
		of := len(l.LockedRels) == 0
		for _, r := range l.LockedRels {
			of = of || r.GetRangeVar().GetRelname() == name
		}
		if of {
			out = max(out, l.Strength)
		}
	}
	return out
}

// fromAt is where the FROM of a SELECT begins, or -1.
func fromAt(sql string, with bool) int {
	scan, err := pg.Scan(sql)
	if err != nil {
		return -1
	}
	depth, of := 0, -1
	last := pg.Token_NUL
	for _, t := range scan.Tokens {
		switch t.Token {
		case pg.Token_ASCII_40:
			depth++
		case pg.Token_ASCII_41:
			depth--
		case pg.Token_SELECT:
			if of < 0 && (!with || depth == 0) {
				of = depth
			}
		case pg.Token_FROM:
			if depth == of && last != pg.Token_DISTINCT { // IS DISTINCT FROM
				return int(t.Start)
			}
		}
		if t.Token != pg.Token_SQL_COMMENT && t.Token != pg.Token_C_COMMENT {
			last = t.Token
		}
	}
	return -1
}

// Read takes the value of the column that was put in.
func (l *RowLocks) Read(value string) ([]LockedRow, bool) {
	fields := strings.Fields(value)
	if len(fields) != 2*len(l.share) {
		return nil, false
	}
	out := make([]LockedRow, len(l.share))
	for i := range out {
		out[i] = LockedRow{Table: fields[2*i], Place: fields[2*i+1], Share: l.share[i]}
	}
	return out, true
}
