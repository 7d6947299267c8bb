package admin

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// TestReplaceAsks: nobody answers at first; what it waits for is said once.
func TestReplaceAsks(t *testing.T) {
	target := Target{Addresses: []string{"127.0.0.1:1"}, Format: "table"}
	err := Replace(t.Context(), target, Replacement{Old: "c", Name: "d", Timeout: time.Minute}, io.Discard, io.Discard)
	if code(err) != exitUnknown {
		t.Errorf("nobody answers: %v", err)
	}
	err = Replace(t.Context(), Target{Format: "xml"}, Replacement{}, io.Discard, io.Discard)
	if code(err) != exitUnknown {
		t.Errorf("a format that there is not: %v", err)
	}
	var said strings.Builder
	x := replacing{progress: &said}
	for _, what := range []string{"a", "a", "b", "a"} {
		x.tell(what)
	}
	if said.String() != "a\nb\na\n" {
		t.Errorf("it says %q", said.String())
	}
	for code, want := range map[string]bool{"42710": true, "55000": true, "TT001": false, "40003": false} {
		if lasts(fmt.Errorf("x: %w", &pgconn.PgError{Code: code})) != want {
			t.Errorf("%s lasts: %v", code, !want)
		}
	}
}

// TestParseMembers: the list with the states of those that a node knows of.
func TestParseMembers(t *testing.T) {
	list := table{columns: []string{"number", "member", "address", "clients", "role", "rank", "site"},
		rows: [][]string{{"1", "a", "a:1", "a:2", "voter", "3", "x"}, {"2", "w", "w:1", "", "witness", "0", ""}}}
	got := parseMembers(list, table{columns: []string{"member", "state"}, rows: [][]string{{"a", "synced"}}})
	if fmt.Sprint(got) != "[{a a:1 a:2 voter 3 x synced} {w w:1  witness 0  }]" {
		t.Errorf("%v", got)
	}
}
