package admin

import (
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// TestRefusal: what a node says against a change is told from what keeps it from being asked.
func TestRefusal(t *testing.T) {
	for code, err := range map[int][]error{ // order-free: each for itself
		exitRefused: {fmt.Errorf("x: %w", &pgconn.PgError{Code: "42704"}), &pgconn.PgError{Code: "55000"},
			&pgconn.PgError{Code: "42501"}},
		exitUnknown: {&pgconn.PgError{Code: "57P03"}, &pgconn.PgError{Code: "28P01"}, &pgconn.PgError{Code: "3D000"},
			errors.New("connection refused")},
	} {
		for _, e := range err {
			if got := refusal(e); got != code {
				t.Errorf("%v ends with exit code %d, want %d", e, got, code)
			}
		}
	}
}
