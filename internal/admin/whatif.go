package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tuttidb/tutti/internal/quorum"
)

// votes is who votes in a database, as a node knows it.
type votes struct {
	database string
	view     quorum.View
	names    map[uint32]string
	expel    string // after how long who is silent no longer votes
}

// WhatIf prints whether each database would go on if members were lost, at once or one after the other, without asking
// more than who votes now. Its error has the exit code: it does not go on if they are lost at once.
func WhatIf(ctx context.Context, t Target, lost []string, w io.Writer) error {
	if len(lost) == 0 {
		return Usage(errors.New("nobody is lost: name members with --lose"))
	}
	return t.would(ctx, w, func(all []votes) (table, error) { return lose(all, lost) })
}

// WithoutMember prints what would become of each database if a member were removed, or demoted. Its error has the exit
// code: one would not go on.
func WithoutMember(ctx context.Context, t Target, procedure, name string, w io.Writer) error {
	return t.would(ctx, w, func(all []votes) (table, error) { return leave(all, procedure, name) })
}

// would asks who votes, and prints what f makes of it. If that has no rows, its error is of how it was asked.
func (t *Target) would(ctx context.Context, w io.Writer, f func([]votes) (table, error)) error {
	if err := t.resolve(); err != nil {
		return Usage(err)
	}
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	all, err := t.votes(ctx)
	if err != nil {
		return exit(exitUnknown, fmt.Errorf("UNKNOWN: no node tells who votes:\n%w", err))
	}
	out, err := f(all)
	if out.rows == nil {
		return Usage(err)
	}
	if err := out.print(w, t.Format); err != nil {
		return exit(exitUnknown, err)
	}
	return exit(exitStops, err)
}

// leave says what becomes of databases if a member is removed, or demoted. Its error names those that do not go on;
// without rows, a member that there is not, or that cannot be demoted.
func leave(all []votes, procedure, name string) (table, error) {
	does, what := quorum.View.Removed, "remove"
	if procedure == demotes {
		does, what = quorum.View.Demoted, "demote"
	}
	out := table{columns: []string{"database", what + "d", "goes_on", "voters", "copies", "another"}}
	var stops []string
	for _, v := range all {
		who, err := v.numbers([]string{name})
		if err != nil {
			return table{}, err
		}
		if procedure == demotes && v.view.Roles[who[0]].Witness {
			return table{}, fmt.Errorf("%s is a witness", name)
		}
		l := does(v.view, who[0])
		if out.rows = append(out.rows, v.row(name, l)); !l.GoesOn {
			stops = append(stops, v.database+" does not go on, or cannot "+what+" "+name+
				": more of the others that vote must be there")
		}
	}
	if len(stops) > 0 {
		return out, errors.New(strings.Join(stops, "; "))
	}
	return out, nil
}

// lose says what becomes of databases if members are lost. Its error names those that do not go on if they are lost at
// once; without rows, a member that there is not.
func lose(all []votes, lost []string) (table, error) {
	out := table{columns: []string{"database", "lost", "goes_on", "voters", "copies", "another"}}
	var stops []string
	for _, v := range all {
		who, err := v.numbers(lost)
		if err != nil {
			return table{}, err
		}
		once, turn := v.view.AtOnce(who), v.view.InTurn(who)
		out.rows = append(out.rows, v.row("at once", once), v.row("one after the other", turn))
		if once.GoesOn {
			continue
		}
		stop := v.database + " does not go on without " + strings.Join(lost, " and ")
		if turn.GoesOn && v.view.Changes {
			stop += ", but if they are lost one after the other, " + v.apart() + " apart"
		}
		stops = append(stops, stop)
	}
	if len(stops) > 0 {
		return out, errors.New(strings.Join(stops, "; "))
	}
	return out, nil
}

// apart is how long it takes from one loss until the next may come: with one copy, the vote moves first to who is to
// vote alone, and then the other is known to be gone.
func (v *votes) apart() string {
	if v.view.MinCopies == 1 {
		return "twice " + v.expel
	}
	return v.expel
}

// votes asks one node after the other until one hears a majority in each database; if none does, the first answer
// counts.
func (t *Target) votes(ctx context.Context) (first []votes, err error) {
	var errs []error
	for _, a := range t.Addresses {
		one := *t
		one.Addresses = []string{a}
		got, err := one.ask(ctx, "votes")
		var list []votes
		if err == nil {
			list, err = parseVotes(got)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if !slices.ContainsFunc(list, func(v votes) bool { return !v.view.AtOnce(nil).GoesOn }) {
			return list, nil
		}
		if first == nil {
			first = list
		}
	}
	if first == nil {
		return nil, errors.Join(errs...)
	}
	return first, nil
}

// parseVotes reads the answer to SHOW tutti.votes.
func parseVotes(t table) (all []votes, err error) {
	database, number, member := t.column("database"), t.column("number"), t.column("member")
	does, there, expel := t.column("votes"), t.column("there"), t.column("expel_after")
	copies, role, rank := t.column("min_copies"), t.column("role"), t.column("rank")
	slow := t.column("slow") // empty at older nodes
	for _, r := range t.rows {
		n, err := strconv.ParseUint(number(r), 10, 32)
		if err != nil {
			return nil, fmt.Errorf("the node tells of member %q", number(r))
		}
		i := slices.IndexFunc(all, func(v votes) bool { return v.database == database(r) })
		if i < 0 {
			i = len(all)
			all = append(all, votes{database: database(r), names: map[uint32]string{}, expel: expel(r),
				view: quorum.View{Roles: map[uint32]quorum.Role{}}})
		}
		v := &all[i]
		v.names[uint32(n)] = member(r)
		v.view.Changes = v.expel != "never"
		if v.view.MinCopies, err = strconv.Atoi(cmp.Or(copies(r), "0")); err != nil {
			return nil, fmt.Errorf("the node tells of %q copies", copies(r))
		}
		is := quorum.Role{Learner: role(r) == "learner", Witness: role(r) == "witness"}
		if is.Rank, err = strconv.Atoi(cmp.Or(rank(r), "0")); err != nil {
			return nil, fmt.Errorf("the node tells of rank %q", rank(r))
		}
		v.view.Roles[uint32(n)] = is
		v.view.Members = append(v.view.Members, uint32(n))
		if does(r) == "yes" {
			v.view.Voters = append(v.view.Voters, uint32(n))
		}
		if there(r) == "yes" {
			v.view.There = append(v.view.There, uint32(n))
		}
		if slow(r) != "" {
			v.view.Slow = append(v.view.Slow, uint32(n))
		}
	}
	for _, v := range all {
		slices.Sort(v.view.Members)
		slices.Sort(v.view.Voters)
		slices.Sort(v.view.There)
	}
	return all, nil
}

// numbers finds members by name.
func (v *votes) numbers(names []string) (list []uint32, err error) {
	for _, name := range names {
		i := slices.IndexFunc(v.view.Members, func(m uint32) bool { return v.names[m] == name })
		if i < 0 {
			return nil, fmt.Errorf("%s is no member: there are %s", name, v.list(v.view.Members))
		}
		list = append(list, v.view.Members[i])
	}
	return list, nil
}

// list names members.
func (v *votes) list(members []uint32) string {
	var names []string
	for _, m := range members {
		names = append(names, v.names[m])
	}
	return strings.Join(names, ", ")
}

// row is one line of the answer.
func (v *votes) row(how string, l quorum.Loss) []string {
	said := map[bool]string{true: "yes", false: "no"}
	return []string{v.database, how, said[l.GoesOn], v.list(l.Voters), strconv.Itoa(l.Copies), said[l.Another]}
}
