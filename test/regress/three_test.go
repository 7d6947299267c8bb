package regress

import (
	"fmt"
	"path/filepath"
	"testing"
)

// With -three the suite runs in three databases of the cluster at once, each at another node, and in three of the same
// names on one plain server. Each is a group of the schedule behind the one before it: roles, and what else all
// databases share, have the same names in each, and most files drop them at their end.

// within is a database of a server, and one of its nodes.
type within struct {
	server
	a       Arm
	address string
}

func (w *within) arm() *Arm   { return &w.a }
func (w *within) url() string { return w.address }

// startThree makes the databases, with a run for each.
func startThree(t *testing.T, s *Suite, out string) (runs []*run) {
	p, m := startPlain(t, "plain"), startMembers(t, out)
	for k, name := range []string{database, "regress2", "regress3"} {
		if k > 0 {
			for _, of := range []server{p, m} {
				if err := execute(of.url(), "CREATE DATABASE "+name); err != nil {
					t.Fatal(err)
				}
			}
		}
		r := emptyRun(t, s, filepath.Join(out, name))
		own, other := p.a, m.a
		own.Dir, own.Database = buildDir(t, own.Name), name
		other.Dir, other.Database = buildDir(t, other.Name), name
		other.Host, other.Port = m.listens(k + 1)
		r.plain, r.tutti = &within{p, own, p.s.ConnString(name)}, &within{m, other, m.c.In(name).URL(k + 1)}
		r.members = m
		runs = append(runs, r)
	}
	return runs
}

func runThree(t *testing.T, s *Suite, out string) {
	if s.Name != "regress" {
		t.Fatal("only the suite regress runs in three databases")
	}
	runs := startThree(t, s, filepath.Join(out, s.Name))
	for round := range len(s.Groups) + len(runs) - 1 {
		var slots []slot
		for k, r := range runs {
			if i := round - k; i >= 0 && i < len(s.Groups) {
				slots = append(slots, slot{r, s.Groups[i]})
			}
		}
		if together(slots...); runs[0].members.made > 1 {
			t.Fatal("the cluster had to be replaced by a new one, which does not have the databases")
		}
	}
	for _, r := range runs {
		fmt.Println(r.tutti.arm().Database)
		r.finish()
	}
}
