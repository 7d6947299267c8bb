package semantics

import (
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"
)

// Detach is an ALTER TABLE … DETACH PARTITION with CONCURRENTLY or FINALIZE.
type Detach struct {
	Text      string // with CONCURRENTLY
	Plain     string // the same without either word
	Parent    string // as written
	Partition string
	Finalizes bool
}

// detaches reports whether a partition is detached CONCURRENTLY.
func detaches(a *pg.AlterTableStmt) bool {
	d := detach(a)
	return d != nil && !d.Finalizes
}

// detach is nil for anything else.
func detach(a *pg.AlterTableStmt) *Detach {
	if len(a.Cmds) != 1 { // PostgreSQL's grammar has no more
		return nil
	}
	cmd := a.Cmds[0].GetAlterTableCmd()
	of := cmd.GetDef().GetPartitionCmd()
	finalizes := cmd.GetSubtype() == pg.AlterTableType_AT_DetachPartitionFinalize
	if !finalizes && (cmd.GetSubtype() != pg.AlterTableType_AT_DetachPartition || !of.GetConcurrent()) {
		return nil
	}
	return &Detach{Parent: rangeName(a.Relation), Partition: rangeName(of.GetName()), Finalizes: finalizes}
}

// located adds the texts.
func (d *Detach) located(sql string) {
	d.Text, d.Plain = sql, without(sql, pg.Token_CONCURRENTLY)
	if d.Finalizes {
		d.Plain = without(sql, pg.Token_FINALIZE)
	}
}

// without takes the last keyword of a kind out of a statement.
func without(sql string, word pg.Token) string {
	scan, err := pg.Scan(ascii(sql))
	if err != nil {
		return sql
	}
	for i := len(scan.Tokens) - 1; i >= 0; i-- {
		if t := scan.Tokens[i]; t.Token == word {
			return sql[:t.Start] + strings.Repeat(" ", int(t.End-t.Start)) + sql[t.End:]
		}
	}
	return sql
}
