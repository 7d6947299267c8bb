package semantics

import (
	pg "github.com/pganalyze/pg_query_go/v6"
)

// Concurrent is a CREATE INDEX CONCURRENTLY that may be carried out as such at every member, for itself: nothing that
// is stored in the index can fail to be, if the columns' types are not too wide, whether a member has it already or
// not. So it is not unique, has a name, and is of columns alone.
type Concurrent struct {
	Text     string // with CONCURRENTLY
	Relation string // as written
	Name     string // of the index
	Columns  []string
}

func concurrent(i *pg.IndexStmt) *Concurrent {
	if i.Unique || i.Idxname == "" || i.AccessMethod != "" && i.AccessMethod != "btree" || i.TableSpace != "" ||
		!onlyNulls(i.WhereClause) {
		return nil
	}
	c := &Concurrent{Relation: rangeName(i.Relation), Name: i.Idxname}
	for _, list := range [][]*pg.Node{i.IndexParams, i.IndexIncludingParams} {
		for _, n := range list {
			e := n.GetIndexElem()
			if e.GetName() == "" || len(e.Opclass) > 0 {
				return nil
			}
			c.Columns = append(c.Columns, e.Name)
		}
	}
	return c
}

// onlyNulls reports whether a predicate asks for nothing but whether columns are null.
func onlyNulls(n *pg.Node) bool {
	if n == nil {
		return true
	}
	switch v := n.GetNode().(type) {
	case *pg.Node_NullTest:
		return v.NullTest.Arg.GetColumnRef() != nil
	case *pg.Node_BoolExpr:
		for _, a := range v.BoolExpr.Args {
			if !onlyNulls(a) {
				return false
			}
		}
		return true
	}
	return false
}
