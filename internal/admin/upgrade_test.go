package admin

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// TestFinished: an upgrade is finished if everybody understands what the cluster's level is, and nothing else.
func TestFinished(t *testing.T) {
	for _, x := range []struct {
		levels, cluster string
		code            int
		why             string
	}{
		{"5 5 5", "5", 0, ""},
		{"5 5 4", "4", exitNotFinished, "understood at a, b"},
		{"5 5 5", "4", exitNotFinished, "understood at a, b, c"},
		{"5  5", "5", exitNotFinished, "b: no release was seen there"},
		{"5 4 6", "5", exitNotFinished, "b: no release was seen there"},
		{"5 5 5", "", exitUnknown, `level is ""`},
	} {
		g := table{columns: []string{"member", "version", "level", "cluster"}}
		for i, level := range strings.Split(x.levels, " ") {
			g.rows = append(g.rows, []string{string(rune('a' + i)), "", level, x.cluster})
		}
		err, code := g.finished(), 0
		var e *ExitError
		if errors.As(err, &e) {
			code = e.Code
		}
		if code != x.code || err != nil && !strings.Contains(err.Error(), x.why) {
			t.Errorf("%q, %q: %v", x.levels, x.cluster, err)
		}
	}
}

// TestUnknown: a node of a release before knows nothing of it, and another one is asked; other refusals are answers.
func TestUnknown(t *testing.T) {
	for code, want := range map[string]bool{ // order-free: each for itself
		"42704": true, "42883": true, "0A000": true, "55000": false, "42501": false, "57P03": false,
	} {
		if got := unknown(fmt.Errorf("x: %w", &pgconn.PgError{Code: code})); got != want {
			t.Errorf("%s: %t", code, got)
		}
	}
	if unknown(errors.New("connection refused")) {
		t.Error("a node that cannot be reached knows nothing of it")
	}
}
