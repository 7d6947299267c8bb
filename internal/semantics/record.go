package semantics

import (
	"fmt"

	pg "github.com/pganalyze/pg_query_go/v6"
)

// RecordChange is what a statement does to what holds for the whole cluster.
type RecordChange uint8

const (
	// NoRecord: nothing.
	NoRecord RecordChange = iota
	// FinishesUpgrade is CALL tutti.finish_upgrade().
	FinishesUpgrade
	// SetsMinCopies is CALL tutti.set_min_copies(number).
	SetsMinCopies
	// SetsExpelAfter is CALL tutti.set_expel_after(time).
	SetsExpelAfter

	lastRecordChange = SetsExpelAfter
)

// Valid reports whether c is one of the above.
func (c RecordChange) Valid() bool { return c <= lastRecordChange }

// recordChanges are the procedures, none of which PostgreSQL has.
var recordChanges = map[string]RecordChange{
	"finish_upgrade": FinishesUpgrade, "set_min_copies": SetsMinCopies, "set_expel_after": SetsExpelAfter,
}

// Record is what a statement does to what holds for the whole cluster.
type Record struct {
	Does RecordChange
	// Level is the one to which the cluster is raised: what the build of its origin understands. The node's.
	Level uint32
	// MinCopies and ExpelAfter are set, or, where an upgrade is finished, those of its origin.
	MinCopies  int
	ExpelAfter string
}

// String is the statement again.
func (r Record) String() string {
	switch r.Does {
	case FinishesUpgrade:
		return "CALL tutti.finish_upgrade()"
	case SetsMinCopies:
		return fmt.Sprintf("CALL tutti.set_min_copies(%d)", r.MinCopies)
	case SetsExpelAfter:
		return fmt.Sprintf("CALL tutti.set_expel_after('%s')", r.ExpelAfter)
	}
	return ""
}

// record classifies a CALL of what changes the record; false for others.
func record(c *pg.CallStmt) (s Statement, is bool) {
	names := c.GetFunccall().GetFuncname()
	if len(names) != 2 || names[0].GetString_().GetSval() != "tutti" {
		return s, false
	}
	name := names[1].GetString_().GetSval()
	r := Record{Does: recordChanges[name]}
	if r.Does == NoRecord {
		return s, false
	}
	given, usage := c.GetFunccall().GetArgs(), "nothing"
	ok := len(given) == 0
	switch r.Does {
	case SetsMinCopies:
		usage = "a number"
		if ok = len(given) == 1; ok {
			r.MinCopies = int(intConst(given[0]))
			ok = r.MinCopies != 0
		}
	case SetsExpelAfter:
		usage = "a time like '10s'"
		if ok = len(given) == 1; ok {
			r.ExpelAfter, ok = stringConst(given[0])
		}
	}
	if !ok {
		s = refuse(fmt.Sprintf("tutti.%s takes %s", name, usage),
			"Write it as a literal: what holds for the cluster is decided before anything is computed.")
		s.Refusal.Code = "42883"
		return s, true
	}
	return Statement{Kind: Definition, Quiet: true, Shared: true, Alone: "CALL tutti." + name,
		Confined: Confined{To: true, Apart: true}, Cluster: Cluster{Record: r}}, true
}
