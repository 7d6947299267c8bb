package admin

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tuttidb/tutti/internal/quorum"
)

// at makes a situation of members written as name/role/state/rank, of whom those named in who vote in the only
// database.
func at(missed time.Duration, who string, members ...string) situation {
	s := situation{oldMissed: missed}
	v := votes{database: "db", names: map[uint32]string{}, view: quorum.View{Changes: true,
		Roles: map[uint32]quorum.Role{}}}
	for i, m := range members {
		n := uint32(i + 1)
		parts := append(strings.Split(m, "/"), "", "", "")
		x := listed{name: parts[0], address: parts[0] + ":1", clients: parts[0] + ":2", role: parts[1], state: parts[2],
			rank: parts[3]}
		s.members = append(s.members, x)
		v.names[n], v.view.Members = x.name, append(v.view.Members, n)
		v.view.Roles[n] = quorum.Role{Learner: x.role == "learner"}
		if strings.Contains(who, x.name) {
			v.view.Voters = append(v.view.Voters, n)
		}
		if x.state != "unreachable" && x.state != "copying" {
			v.view.There = append(v.view.There, n)
		}
	}
	s.votes = []votes{v}
	return s
}

// TestReplaceNext: one step after the other of a replacement of c by d, wherever it begins.
func TestReplaceNext(t *testing.T) {
	const a, b, c, d = "a/voter/synced", "b/voter/synced", "c/voter/synced", "d/voter/synced"
	const demoted, gone = "c/learner/synced", "c/voter/unreachable"
	for _, x := range []struct {
		about string
		added bool
		s     situation
		want  string // a statement, what is waited for, why it is refused, or nothing
	}{
		{"the beginning", false, at(0, "abc", a, b, c), "CALL tutti.add_member('d', 'd:1', 'd:2')"},
		{"it copies", true, at(0, "abc", a, b, c, "d/voter/copying"), "waits: d is copying"},
		{"it is not started", true, at(0, "abc", a, b, c, "d/voter/unreachable"), "waits: d cannot be reached"},
		{"it is synced", true, at(0, "abc", a, b, c, d), "CALL tutti.demote_member('c')"},
		{"the old one votes yet", false, at(0, "abc", a, b, demoted, d), "waits: who votes in db is changing: a, b, c"},
		{"the new one votes", false, at(0, "abd", a, b, demoted, d), "CALL tutti.remove_member('c')"},
		{"the old one is removed", false, at(0, "ab", a, b, d), "waits: who votes in db is changing: a, b"},
		{"it ends", false, at(0, "abd", a, b, d), ""},
		{"it is not there, and removed", false, at(0, "ab", a, b, "d/voter/copying"), "waits: d is copying"},
		{"the old one is gone just now", true, at(oldGoneAfter-1, "abc", a, b, gone, "d/voter/unreachable"),
			"waits: d cannot be reached"},
		{"the old one is gone", true, at(oldGoneAfter, "abc", a, b, gone, "d/voter/unreachable"),
			"CALL tutti.remove_member('c')"},
		{"the old one is gone, and another one", true,
			at(oldGoneAfter, "abc", a, "b/voter/unreachable", gone, "d/voter/unreachable"),
			"waits: c cannot be removed yet"},
		{"the old one was demoted before", true, at(0, "ab", a, b, demoted, d), "CALL tutti.demote_member('d')"},
		{"so is the new one", true, at(0, "ab", a, b, demoted, "d/learner/synced"), "CALL tutti.remove_member('c')"},
		{"the old one ranks", true, at(0, "abc", a, b, "c/voter/synced/5", "d/voter/synced/0"),
			"CALL tutti.rank_member('d', '5')"},
		{"the only one", true, at(0, "c", c, d), "CALL tutti.demote_member('c')"},
		{"the only one votes yet", false, at(0, "c", demoted, d), "waits: who votes in db is changing: c"},
		{"the only one is followed", false, at(0, "d", demoted, d), "CALL tutti.remove_member('c')"},
		{"nobody knows the old one", false, at(0, "ab", a, b), "refused: c is no member"},
		{"the old one is a witness", false, at(0, "abc", a, b, "c/witness/synced"), "refused: c is a witness"},
		{"the new one is one", false, at(0, "abc", a, b, c, "d/witness/"), "refused: d is a member already"},
	} {
		r := replacing{Replacement: Replacement{Old: "c", Name: "d", Address: "d:1", Clients: "d:2"}, added: x.added}
		got := r.next(x.s)
		text := got.does
		switch {
		case got.refused != nil:
			text = "refused: " + got.refused.Error()
		case got.waits != "":
			text = "waits: " + got.waits
		}
		if !strings.HasPrefix(text, x.want) || x.want == "" && text != "" {
			t.Errorf("%s: %q, want %q", x.about, text, x.want)
		}
	}
	for _, r := range []Replacement{{Old: "c", Name: "d", Address: "e:1"}, {Old: "c", Name: "d", Address: "d:1",
		Clients: "e:2"}, {Old: "c", Name: "c", Address: "d:1"}} {
		if got := (&replacing{Replacement: r}).next(at(0, "abc", a, b, c, d)); got.refused == nil {
			t.Errorf("%+v: %+v", r, got)
		}
	}
}

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
