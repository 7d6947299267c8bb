package catalog

import (
	"testing"

	"github.com/jackc/pgx/v5"
)

// TestCode: a database without functions of users' or extensions' is known as such, and one with some from the
// definition on that makes them.
func TestCode(t *testing.T) {
	m := newMembers(t, 1)
	var known *Tables
	m.in(m.conns[0], func(tx pgx.Tx) (err error) {
		known, err = Describe(ctx, tx)
		return err
	})
	for _, x := range []struct {
		sql  string
		code bool
	}{
		{"CREATE TABLE a (id int PRIMARY KEY, v int)", false},
		{"CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'", true}, {"CREATE INDEX ON a (v)", true},
		{"DROP FUNCTION f()", false},
		{"CREATE EXTENSION pgcrypto", true}, {"DROP EXTENSION pgcrypto", false},
	} {
		m.in(m.conns[0], func(tx pgx.Tx) (err error) {
			if _, err = tx.Exec(ctx, "SET LOCAL backtrace_functions = 'tutti_on'; SET LOCAL tutti.tx = 'on'; "+
				x.sql); err == nil {
				known, err = Follow(ctx, tx, known)
			}
			return err
		})
		if known.Code() != x.code {
			t.Errorf("after %s: %v", x.sql, known.Code())
		}
	}
}
