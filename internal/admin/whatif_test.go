package admin

import (
	"fmt"
	"strings"
	"testing"
)

// votesOf makes an answer to SHOW tutti.votes of databases written as one letter per member: V votes and is there, v
// votes and is not, L is a learner that is there, - one that is not.
func votesOf(expel string, databases ...string) table { return votesWith(expel, "2", databases...) }

func votesWith(expel, copies string, databases ...string) table {
	t := table{columns: []string{"database", "number", "member", "votes", "there", "expel_after", "min_copies"}}
	said := map[bool]string{true: "yes", false: "no"}
	for i, d := range databases {
		for m, c := range d {
			t.rows = append(t.rows, []string{fmt.Sprint("db", i+1), fmt.Sprint(m + 1), fmt.Sprint("node", m+1),
				said[strings.ContainsRune("Vv", c)], said[strings.ContainsRune("VL", c)], expel, copies})
		}
	}
	return t
}

// TestLose: what is printed, and which databases do not go on.
func TestLose(t *testing.T) {
	for _, c := range []struct {
		name string
		view table
		lost string
		rows string // all but the database's name
		err  string
	}{
		{"two of five", votesOf("10s", "VVVVV"), "node1 node2",
			"at once yes node3, node4, node5 1 yes; one after the other yes node3, node4, node5 1 yes", ""},
		{"three of five", votesOf("10s", "VVVVV"), "node1 node2 node3",
			"at once no node1, node2, node3, node4, node5 0 no; one after the other yes node3, node4, node5 1 no",
			"db1 does not go on without node1 and node2 and node3, but if they are lost one after the other, 10s " +
				"apart"},
		{"three of five that vote for ever", votesOf("never", "VVVVV"), "node1 node2 node3",
			"at once no node1, node2, node3, node4, node5 0 no; " +
				"one after the other no node1, node2, node3, node4, node5 2 no",
			"db1 does not go on without node1 and node2 and node3"},
		{"two of three, one copy", votesWith("10s", "1", "VVV"), "node2 node3",
			"at once no node1, node2, node3 0 no; one after the other yes node1 1 no",
			"db1 does not go on without node2 and node3, but if they are lost one after the other, twice 10s " +
				"apart"},
		{"one that is gone already", votesOf("10s", "VVVL-"), "node5",
			"at once yes node1, node2, node3 2 yes; one after the other yes node1, node2, node3 2 yes", ""},
		{"one of two databases", votesOf("10s", "VVVLL", "VVVVV"), "node1 node2",
			"at once no node1, node2, node3 0 no; one after the other yes node3, node4, node5 1 yes; " +
				"at once yes node3, node4, node5 1 yes; one after the other yes node3, node4, node5 1 yes",
			"db1 does not go on without node1 and node2, but if"},
		{"one of two, where one copy is enough", votesWith("10s", "1", "VL"), "node2",
			"at once yes node1 1 no; one after the other yes node1 1 no", ""},
		{"who votes alone", votesWith("10s", "1", "VL"), "node1",
			"at once no node1 1 no; one after the other no node1 1 no", "db1 does not go on without node1"},
		{"a stranger", votesOf("10s", "VVV"), "node4", "", "node4 is no member: there are node1, node2, node3"},
	} {
		all, err := parseVotes(c.view)
		if err != nil {
			t.Fatal(err)
		}
		got, err := lose(all, strings.Fields(c.lost))
		var rows []string
		for _, r := range got.rows {
			rows = append(rows, strings.Join(r[1:], " "))
		}
		if text := strings.Join(rows, "; "); text != c.rows {
			t.Errorf("%s: %s, want %s", c.name, text, c.rows)
		}
		if (err != nil) != (c.err != "") || err != nil && !strings.HasPrefix(err.Error(), c.err) {
			t.Errorf("%s: %v, want %s", c.name, err, c.err)
		}
	}
	bad := votesOf("10s", "V")
	bad.rows[0][1] = "one"
	if _, err := parseVotes(bad); err == nil {
		t.Error("what is no number is one")
	}
}

// TestDemote: what is printed of a member that is to be demoted: how many vote then. A node that does not tell of roles
// has none.
func TestDemote(t *testing.T) {
	with := func(view table, roles ...string) table {
		view.columns = append(view.columns, "role", "rank")
		for i := range view.rows {
			view.rows[i] = append(view.rows[i], roles[i%len(roles)], fmt.Sprint(i%2))
		}
		return view
	}
	for _, c := range []struct {
		name    string
		view    table
		demoted string
		rows    string // all but the database's name
		err     string
	}{
		{"one of five", votesOf("10s", "VVVVV"), "node5", "node5 yes node1, node2, node3 2 yes", ""},
		{"one of three", votesOf("10s", "VVV"), "node1", "node1 yes node2, node3 2 no", ""},
		{"another one follows", with(votesOf("10s", "VVVL"), "voter"), "node1",
			"node1 yes node2, node3, node4 2 yes", ""},
		{"none follows that is one", with(votesOf("10s", "VVVL"), "voter", "voter", "voter", "learner"), "node1",
			"node1 yes node2, node3 2 no", ""},
		{"one of three beside one that is gone, which votes until that is back", votesOf("10s", "VVv"), "node1",
			"node1 yes node1, node2, node3 2 no", ""},
		{"the only one that may vote", with(votesOf("10s", "VLL"), "voter", "learner", "witness"), "node1",
			"node1 no node1 0 no", "db1 does not go on, or cannot demote node1"},
		{"a witness", with(votesOf("10s", "VVV"), "voter", "voter", "witness"), "node3", "", "node3 is a witness"},
		{"a stranger", votesOf("10s", "VVV"), "node4", "", "node4 is no member: there are node1, node2, node3"},
	} {
		all, err := parseVotes(c.view)
		if err != nil {
			t.Fatal(err)
		}
		got, err := leave(all, demotes, c.demoted)
		text := ""
		for _, r := range got.rows {
			text = strings.Join(r[1:], " ")
		}
		if text != c.rows || (err != nil) != (c.err != "") || err != nil && !strings.HasPrefix(err.Error(), c.err) {
			t.Errorf("%s is demoted: %s, want %s; %v, want %s", c.name, text, c.rows, err, c.err)
		}
	}
}

// TestRemove: what is printed of a member that is to be removed.
func TestRemove(t *testing.T) {
	for _, c := range []struct {
		name    string
		view    table
		removed string
		rows    string // all but the database's name
		err     string
	}{
		{"one of five", votesOf("10s", "VVVVV"), "node5", "node5 yes node1, node2, node3 2 yes", ""},
		{"one of three", votesOf("10s", "VVV"), "node1", "node1 yes node2, node3 2 no", ""},
		{"one of three that is gone", votesOf("10s", "VVv"), "node3", "node3 yes node1, node2 2 no", ""},
		{"one of three beside one that is gone", votesOf("10s", "VVv"), "node1", "node1 no node1, node2, node3 0 no",
			"db1 does not go on, or cannot remove node1"},
		{"a stranger", votesOf("10s", "VVV"), "node4", "", "node4 is no member: there are node1, node2, node3"},
	} {
		all, err := parseVotes(c.view)
		if err != nil {
			t.Fatal(err)
		}
		got, err := leave(all, "remove_member", c.removed)
		text := ""
		for _, r := range got.rows {
			text = strings.Join(r[1:], " ")
		}
		if text != c.rows || (err != nil) != (c.err != "") || err != nil && !strings.HasPrefix(err.Error(), c.err) {
			t.Errorf("%s is removed: %s, want %s; %v, want %s", c.name, text, c.rows, err, c.err)
		}
	}
}
