package admin

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// view makes an answer to SHOW tutti.status of members written as role/state/tables that differ/reason.
func view(members ...string) table {
	t := table{columns: []string{"member", "address", "role", "state", "differs", "reason"}}
	for i, m := range members {
		parts := append(strings.Split(m, "/"), "", "")
		t.rows = append(t.rows, []string{fmt.Sprintf("node%d", i+1), "", parts[0], parts[1], parts[2], parts[3]})
	}
	return t
}

func code(err error) int {
	var e *ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &e):
		return e.ExitCode()
	}
	return -1
}

// TestStatusVerdict: the exit code tells what somebody who is called at night has to know.
func TestStatusVerdict(t *testing.T) {
	for _, c := range []struct {
		code int
		text string
		view table
	}{
		{0, "", view("leader/synced", "follower/synced", "follower/synced")},
		{0, "", view("leader/synced")},
		{1, "node3 is unreachable", view("leader/synced", "follower/synced", "follower/unreachable")},
		{1, "node3 is joining", view("leader/synced", "follower/synced", "follower/joining")},
		{1, "WARNING: 3 of 3 members serve clients: node2 is catching up, node3 is catching up",
			view("leader/synced", "follower/catching up", "follower/catching up")},
		{1, "node4 is unreachable, node5 is unreachable",
			view("leader/synced", "follower/synced", "follower/synced", "follower/unreachable",
				"follower/unreachable")},
		{1, "node3 is copying the database of node2",
			view("leader/synced", "follower/synced", "follower/copying//the database of node2")},
		{1, "node3 is halted at entry 5", view("leader/synced", "follower/synced", "follower/halted//entry 5")},
		{2, "CRITICAL: 1 of 3", view("leader/synced", "follower/joining", "follower/unreachable")},
		{2, "CRITICAL: copies differ: node2 differs in public.a, node3 is joining",
			view("leader/synced", "follower/synced/public.a", "follower/joining")},
		{2, "CRITICAL: 1 of 2", view("leader/synced", "follower/unreachable")},
		{2, "node1 is without a leader", view("follower/no leader", "follower/unreachable", "follower/unreachable")},
		{2, "CRITICAL: nobody leads", view("leader/unreachable", "follower/synced", "follower/synced")},
	} {
		err := c.view.verdict()
		if code(err) != c.code || err != nil && !strings.Contains(err.Error(), c.text) {
			t.Errorf("%v: %v with code %d, want %q with %d", c.view.rows, err, code(err), c.text, c.code)
		}
	}
}

// TestUnavailable: who does not answer, or says that it is not ready, is no answer about the cluster; a wrong password
// is.
func TestUnavailable(t *testing.T) {
	for err, want := range map[error]bool{
		errors.New("connection refused"):                    true,
		&pgconn.PgError{Code: "57P03"}:                      true,
		&pgconn.PgError{Code: "28P01"}:                      false,
		fmt.Errorf("x: %w", &pgconn.PgError{Code: "3D000"}): false,
	} {
		if unavailable(err) != want {
			t.Errorf("%v: %t", err, !want)
		}
	}
	if err := exit(exitCritical, exit(exitUnknown, errors.New("x"))); code(err) != exitUnknown {
		t.Errorf("the inner code is lost: %d", code(err))
	}
	if exit(exitCritical, nil) != nil || Usage(nil) != nil {
		t.Error("no error has become one")
	}
}

// TestExamine: members that are missing are told apart from those that differ.
func TestExamine(t *testing.T) {
	sums := table{columns: []string{"ordinal", "member", "table", "rows", "checksum", "verdict"}, rows: [][]string{
		{"11", "node1", "public.a", "1", "x", "ok"}, {"11", "node2", "public.a", "1", "x", "ok"},
		{"11", "node1", "public.b", "1", "x", "ok"}, {"11", "node2", "public.b", "1", "x", "ok"},
		{"", "node3", "", "", "", "unreachable"},
	}}
	found := sums.examine()
	var out strings.Builder
	if err := found.print(&out, "shop"); err != nil ||
		out.String() != "shop: 2 tables are equal on node1 and node2 at ordinal 11\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
	if fmt.Sprint(found.missing) != "[node3 is unreachable]" || len(found.differ.rows) > 0 {
		t.Errorf("%+v", found)
	}
	sums.rows[1][5] = "differs"
	out.Reset()
	if found = sums.examine(); len(found.differ.rows) != 1 || found.print(&out, "shop") != nil ||
		strings.Contains(out.String(), "equal") {
		t.Errorf("%+v: %s", found, out.String())
	}
	sums.rows = sums.rows[4:]
	out.Reset()
	if found = sums.examine(); found.print(&out, "shop") != nil || strings.Contains(out.String(), "all members") {
		t.Errorf("%+v: %s", found, out.String())
	}
}

// TestDatabasesTogether: one database that has no tables does not hide what the others have.
func TestDatabasesTogether(t *testing.T) {
	all := table{columns: []string{"database"}}
	all.add("a", table{columns: []string{"member", "verdict"}, rows: [][]string{{"node1", "ok"}}})
	all.add("empty", table{})
	var out strings.Builder
	if err := all.print(&out, "json"); err != nil || !strings.Contains(out.String(), `"verdict": "ok"`) {
		t.Errorf("%v: %s", err, out.String())
	}
}
