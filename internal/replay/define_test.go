package replay

import (
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// TestUnwrapped: the function that lends a role its rights is not seen in what clients are told.
func TestUnwrapped(t *testing.T) {
	const sql, function = "CREATE VIEW v AS\nSELECT f()",
		"PL/pgSQL function tutti.run_definition(text) line 1 at EXECUTE"
	const statement = "SQL statement \"" + sql + "\""
	for _, c := range []struct{ in, want pgconn.PgError }{
		{pgconn.PgError{InternalQuery: sql, InternalPosition: 7, Where: function}, pgconn.PgError{Position: 7}},
		{pgconn.PgError{Where: statement + "\n" + function}, pgconn.PgError{}},
		{pgconn.PgError{Where: "PL/pgSQL function f() line 2 at RAISE\n" + statement + "\n" + function},
			pgconn.PgError{Where: "PL/pgSQL function f() line 2 at RAISE"}},
		{pgconn.PgError{InternalQuery: "SELECT x", InternalPosition: 8,
			Where: "PL/pgSQL function f() line 3 at SQL statement\n" + statement + "\n" + function},
			pgconn.PgError{InternalQuery: "SELECT x", InternalPosition: 8,
				Where: "PL/pgSQL function f() line 3 at SQL statement"}},
		{pgconn.PgError{Where: "parallel worker"}, pgconn.PgError{Where: "parallel worker"}},
	} {
		if got := unwrapped(&c.in, sql); *got != c.want {
			t.Errorf("%+v becomes %+v", c.in, *got)
		}
	}
}
