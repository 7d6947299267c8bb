package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tuttidb/tutti/internal/replacement"
)

// Replacement has a new member take the place of another one.
type Replacement struct {
	Old     string
	Name    string // of the new one
	Address string // host:port for the other members
	Clients string // host:port for clients; empty: not said
	Timeout time.Duration
}

const (
	// replacePoll is between two looks at the cluster.
	replacePoll = 500 * time.Millisecond
	// replaceCallMax bounds one question or one change.
	replaceCallMax = time.Minute
	// oldGoneAfter is for how long the old member cannot be reached before it is removed first: the new one cannot
	// begin before it is.
	oldGoneAfter = 10 * time.Second
)

// Replace adds the new member, waits until it has all and votes in the place of the old one, and removes that. It may
// be run again: it goes on from where the cluster is. What it waits for is said in progress.
func Replace(ctx context.Context, t Target, r Replacement, w, progress io.Writer) error {
	if err := t.resolve(); err != nil {
		return Usage(err)
	}
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	x := replacing{target: &t, progress: progress, Change: replacement.Change{Old: r.Old, Name: r.Name,
		Address: r.Address, Clients: r.Clients}}
	for {
		done, err := x.round(ctx)
		switch {
		case err != nil:
			return err
		case done:
			got, err := t.ask(ctx, "members")
			if err != nil {
				return exit(exitUnknown, err)
			}
			return got.print(w, t.Format)
		}
		select {
		case <-ctx.Done():
			return exit(exitUnfinished, fmt.Errorf("%s has not taken the place of %s yet; run the same again: %s",
				r.Name, r.Old, x.said))
		case <-time.After(replacePoll):
		}
	}
}

// replacing is a replacement that is under way.
type replacing struct {
	replacement.Change
	target   *Target
	progress io.Writer
	said     string    // last
	missed   time.Time // since when the old one cannot be reached; zero: it can
	refused  string    // the change that was refused last
	heard    bool      // a node has answered
}

// tell says what is waited for, once.
func (x *replacing) tell(what string) {
	if what != x.said {
		x.said = what
		fmt.Fprintln(x.progress, what)
	}
}

// round looks at the cluster and does what comes next, if that can be done now.
func (x *replacing) round(ctx context.Context) (done bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, replaceCallMax)
	defer cancel()
	s, err := x.look(ctx)
	if err != nil {
		if !x.heard && ctx.Err() == nil {
			return false, exit(exitUnknown, err)
		}
		x.tell("waits for a node that answers: " + err.Error())
		return false, nil
	}
	x.heard = true
	next := x.Next(s)
	switch {
	case next.Refused != nil:
		return false, exit(exitRefused, next.Refused)
	case next.Procedure == "":
		if next.Waits != "" {
			x.tell(next.Waits)
		}
		return next.Waits == "", nil
	}
	does := call(next.Procedure, next.Takes...)
	x.tell(does)
	_, err = x.target.run(ctx, does)
	if err != nil && lasts(err) && x.refused == does {
		return false, exit(exitRefused, err)
	}
	if err != nil { // it may have been carried out: the next round looks
		x.refused = does
		x.tell(err.Error())
		return false, nil
	}
	return false, nil
}

// lasts reports whether a change would be refused again.
func lasts(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && slices.Contains([]string{"22", "42", "53", "55"}, pg.Code[:2])
}

// look asks how the cluster is.
func (x *replacing) look(ctx context.Context) (s replacement.Situation, err error) {
	list, err := x.target.ask(ctx, "members")
	if err != nil {
		return s, err
	}
	status, err := x.target.view(ctx)
	if err != nil {
		return s, err
	}
	all, err := x.target.votes(ctx)
	if err != nil {
		return s, err
	}
	for _, v := range all {
		s.Votes = append(s.Votes, replacement.Votes{Database: v.database, View: v.view, Names: v.names})
	}
	s.Members = parseMembers(list, status)
	old := s.Find(x.Old)
	switch {
	case old == nil || old.State != replacement.Unreachable:
		x.missed = time.Time{}
	case x.missed.IsZero():
		x.missed = time.Now()
	default:
		s.Missed = time.Since(x.missed) >= oldGoneAfter
	}
	return s, nil
}

// parseMembers joins two answers.
func parseMembers(list, status table) (members []replacement.Member) {
	name, address, clients := list.column("member"), list.column("address"), list.column("clients")
	role, rank, site := list.column("role"), list.column("rank"), list.column("site")
	member, state := status.column("member"), status.column("state")
	for _, r := range list.rows {
		m := replacement.Member{Name: name(r), Address: address(r), Clients: clients(r), Role: role(r), Rank: rank(r),
			Site: site(r)}
		for _, x := range status.rows {
			if member(x) == m.Name {
				m.State = state(x)
			}
		}
		members = append(members, m)
	}
	return members
}

// call is a CALL of a procedure that changes the list of members.
func call(procedure string, args ...string) string {
	var list []string
	for _, a := range args {
		list = append(list, "'"+strings.ReplaceAll(a, "'", "''")+"'")
	}
	return "CALL tutti." + procedure + "(" + strings.Join(list, ", ") + ")"
}
