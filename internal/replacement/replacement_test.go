package replacement

import (
	"strings"
	"testing"

	"github.com/tuttidb/tutti/internal/quorum"
)

// at makes a situation of members written as name/role/state/rank, of whom those named in who vote in the only
// database.
func at(missed bool, who string, members ...string) Situation {
	s := Situation{Missed: missed}
	v := Votes{Database: "db", Names: map[uint32]string{}, View: quorum.View{Changes: true,
		Roles: map[uint32]quorum.Role{}}}
	for i, m := range members {
		n := uint32(i + 1)
		parts := append(strings.Split(m, "/"), "", "", "")
		x := Member{Name: parts[0], Address: parts[0] + ":1", Clients: parts[0] + ":2", Role: parts[1], State: parts[2],
			Rank: parts[3]}
		s.Members = append(s.Members, x)
		v.Names[n], v.View.Members = x.Name, append(v.View.Members, n)
		v.View.Roles[n] = quorum.Role{Learner: x.Role == "learner"}
		if strings.Contains(who, x.Name) {
			v.View.Voters = append(v.View.Voters, n)
		}
		if x.State != "unreachable" && x.State != "copying" {
			v.View.There = append(v.View.There, n)
		}
	}
	s.Votes = []Votes{v}
	return s
}

// TestNext: one step after the other of a replacement of c by d, wherever it begins.
func TestNext(t *testing.T) {
	const a, b, c, d = "a/voter/synced", "b/voter/synced", "c/voter/synced", "d/voter/synced"
	const demoted, gone = "c/learner/synced", "c/voter/unreachable"
	for _, x := range []struct {
		about   string
		demoted bool // when the new one was added
		s       Situation
		want    string // a statement, what is waited for, why it is refused, or nothing
	}{
		{"the beginning", false, at(false, "abc", a, b, c), "add_member d d:1 d:2"},
		{"it copies", true, at(false, "abc", a, b, c, "d/voter/copying"), "waits: d is copying"},
		{"it is not started", true, at(false, "abc", a, b, c, "d/voter/unreachable"), "waits: d cannot be reached"},
		{"it is synced", true, at(false, "abc", a, b, c, d), "demote_member c"},
		{"the old one votes yet", false, at(false, "abc", a, b, demoted, d),
			"waits: who votes in db is changing: a, b, c"},
		{"the new one votes", false, at(false, "abd", a, b, demoted, d), "remove_member c"},
		{"the old one is removed", false, at(false, "ab", a, b, d), "waits: who votes in db is changing: a, b"},
		{"it ends", false, at(false, "abd", a, b, d), ""},
		{"it is not there, and removed", false, at(false, "ab", a, b, "d/voter/copying"), "waits: d is copying"},
		{"the old one is gone just now", true, at(false, "abc", a, b, gone, "d/voter/unreachable"),
			"waits: d cannot be reached"},
		{"the old one is gone", true, at(true, "abc", a, b, gone, "d/voter/unreachable"),
			"remove_member c"},
		{"the old one is gone, and another one", true,
			at(true, "abc", a, "b/voter/unreachable", gone, "d/voter/unreachable"),
			"waits: c cannot be removed yet"},
		{"the old one was demoted before", true, at(false, "ab", a, b, demoted, d), "demote_member d"},
		{"so is the new one", true, at(false, "ab", a, b, demoted, "d/learner/synced"), "remove_member c"},
		{"the old one ranks", true, at(false, "abc", a, b, "c/voter/synced/5", "d/voter/synced/0"),
			"rank_member d 5"},
		{"the only one", true, at(false, "c", c, d), "demote_member c"},
		{"the only one votes yet", false, at(false, "c", demoted, d), "waits: who votes in db is changing: c"},
		{"the only one is followed", false, at(false, "d", demoted, d), "remove_member c"},
		{"nobody knows the old one", false, at(false, "ab", a, b), "refused: c is no member"},
		{"the old one is a witness", false, at(false, "abc", a, b, "c/witness/synced"), "refused: c is a witness"},
		{"the new one is one", false, at(false, "abc", a, b, c, "d/witness/"), "refused: d is a member already"},
	} {
		c := Change{Old: "c", Name: "d", Address: "d:1", Clients: "d:2", demoted: x.demoted}
		got := c.Next(x.s)
		text := strings.Join(append([]string{got.Procedure}, got.Takes...), " ")
		switch {
		case got.Refused != nil:
			text = "refused: " + got.Refused.Error()
		case got.Waits != "":
			text = "waits: " + got.Waits
		}
		if !strings.HasPrefix(text, x.want) || x.want == "" && text != "" {
			t.Errorf("%s: %q, want %q", x.about, text, x.want)
		}
	}
	for _, r := range []Change{{Old: "c", Name: "d", Address: "e:1"}, {Old: "c", Name: "d", Address: "d:1",
		Clients: "e:2"}, {Old: "c", Name: "c", Address: "d:1"}} {
		if got := r.Next(at(false, "abc", a, b, c, d)); got.Refused == nil {
			t.Errorf("%+v: %+v", r, got)
		}
	}
}

// TestWhole: the new member has the role that the old one had when it was added, whatever this does to the old one.
func TestWhole(t *testing.T) {
	const a, b = "a/voter/synced", "b/voter/synced"
	for role, want := range map[string]string{ // order-free: each for itself
		"voter":   "add_member demote_member(c) remove_member",
		"learner": "add_member demote_member(d) remove_member",
	} {
		c := Change{Old: "c", Name: "d", Address: "d:1"}
		var did []string
		members, who := []string{a, b, "c/" + role + "/synced"}, "ab"
		for range 10 {
			next := c.Next(at(false, who, members...))
			if next.Procedure == "" {
				break
			}
			switch step := next.Procedure; step {
			case "add_member":
				members, who = append(members, "d/voter/synced"), "abd"
				did = append(did, step)
			case "demote_member":
				i := strings.Index("abcd", next.Takes[0])
				members[i] = strings.Replace(members[i], "voter", "learner", 1)
				if next.Takes[0] == "d" {
					who = "ab"
				}
				did = append(did, step+"("+next.Takes[0]+")")
			case "remove_member":
				members = append(members[:2], members[3:]...)
				did = append(did, step)
			}
		}
		if got := strings.Join(did, " "); got != want {
			t.Errorf("the old one is a %s: %s, want %s", role, got, want)
		}
	}
}
