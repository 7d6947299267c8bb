package capture

import (
	"fmt"
	"strings"
)

// A direct statement tells by tutti.tx whether something else was captured. Any function can set that. So where there
// are functions, a direct statement also tells what the database itself knows: whether rows of the transaction were
// captured while tutti.tx says that nothing is (forged), and whether it has written to catalogs of which nobody is
// called (aside). Counts that PostgreSQL keeps say, at next to no cost, that there is nothing to look for; they are
// never too low, and too high for a second after another transaction of the session's.

// codeQuery asks whether there are functions besides PostgreSQL's and Tutti's own.
const codeQuery = `EXISTS (SELECT FROM pg_catalog.pg_proc p WHERE p.oid OPERATOR(pg_catalog.>=) 16384::pg_catalog.oid
  AND p.pronamespace OPERATOR(pg_catalog.<>) 'tutti'::pg_catalog.regnamespace::pg_catalog.oid AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend d
    JOIN pg_catalog.pg_extension x ON x.oid OPERATOR(pg_catalog.=) d.refobjid WHERE d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_proc'::pg_catalog.regclass::pg_catalog.oid
    AND d.objid OPERATOR(pg_catalog.=) p.oid AND d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_extension'::pg_catalog.regclass::pg_catalog.oid
    AND d.deptype OPERATOR(pg_catalog.=) 'e'::pg_catalog."char" AND x.extname OPERATOR(pg_catalog.=) 'tutti'::pg_catalog.name))`

// What tutti.unnoticed adds to the value of tutti.tx.
const (
	forgedSuffix = "!" // rows were captured all the same
	asideSuffix  = "?" // the collect step has something to look at
)

// noticed is SQL for the value of tutti.tx with what the database knows.
func noticed() string {
	var counts []string
	for i := range captureTables {
		counts = append(counts, fmt.Sprintf("pg_catalog.pg_stat_get_xact_tuples_inserted('tutti.capture%d'::pg_catalog.regclass::pg_catalog.oid)", i))
	}
	counts = append(counts, asideCount())
	return fmt.Sprintf("CASE WHEN (%s) OPERATOR(pg_catalog.=) 0::pg_catalog.int8 THEN "+
		"pg_catalog.current_setting('%s') ELSE tutti.unnoticed() END",
		strings.Join(counts, " OPERATOR(pg_catalog.+) "), TransactionSetting)
}

func unnoticedFunction() string {
	return install("unnoticed.sql", words{
		"tx":     TransactionSetting,
		"direct": DirectSetting,
		"forged": forgedSuffix,
		"counts": "(" + asideCount() + ")",
		"aside":  asideSuffix,
	})
}

// asideCount is SQL for how much the session has counted that the collect step has to look at.
func asideCount() string {
	return sharedCount() + " OPERATOR(pg_catalog.+) " + countOf(asideCatalogs, "inserted", "updated", "deleted")
}

// asideCatalogs are pg_largeobject and pg_largeobject_metadata.
var asideCatalogs = []int{2613, 2995}
