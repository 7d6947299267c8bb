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
	x := replacing{Replacement: r, target: &t, progress: progress}
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
	Replacement
	target   *Target
	progress io.Writer
	said     string    // last
	added    bool      // the new member was added by this run
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
	next := x.next(s)
	switch {
	case next.refused != nil:
		return false, exit(exitRefused, next.refused)
	case next.does == "":
		if next.waits != "" {
			x.tell(next.waits)
		}
		return next.waits == "", nil
	}
	x.tell(next.does)
	_, err = x.target.run(ctx, next.does)
	if err != nil && lasts(err) && x.refused == next.does {
		return false, exit(exitRefused, err)
	}
	if err != nil { // it may have been carried out: the next round looks
		x.refused = next.does
		x.tell(err.Error())
		return false, nil
	}
	x.added = x.added || strings.HasPrefix(next.does, "CALL tutti.add_member(")
	return false, nil
}

// lasts reports whether a change would be refused again.
func lasts(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && slices.Contains([]string{"22", "42", "53", "55"}, pg.Code[:2])
}

// listed is a member as SHOW tutti.members has it, and its state in SHOW tutti.status.
type listed struct {
	name, address, clients, role, rank, site string
	state                                    string
}

// situation is the cluster as one of its nodes sees it.
type situation struct {
	members   []listed
	votes     []votes
	oldMissed time.Duration // for so long the old one cannot be reached
}

// look asks how the cluster is.
func (x *replacing) look(ctx context.Context) (s situation, err error) {
	list, err := x.target.ask(ctx, "members")
	if err != nil {
		return s, err
	}
	status, err := x.target.view(ctx)
	if err != nil {
		return s, err
	}
	if s.votes, err = x.target.votes(ctx); err != nil {
		return s, err
	}
	s.members = parseMembers(list, status)
	old := s.find(x.Old)
	switch {
	case old == nil || old.state != "unreachable":
		x.missed = time.Time{}
	case x.missed.IsZero():
		x.missed = time.Now()
	default:
		s.oldMissed = time.Since(x.missed)
	}
	return s, nil
}

// parseMembers joins two answers.
func parseMembers(list, status table) (members []listed) {
	name, address, clients := list.column("member"), list.column("address"), list.column("clients")
	role, rank, site := list.column("role"), list.column("rank"), list.column("site")
	member, state := status.column("member"), status.column("state")
	for _, r := range list.rows {
		m := listed{name: name(r), address: address(r), clients: clients(r), role: role(r), rank: rank(r),
			site: site(r)}
		for _, x := range status.rows {
			if member(x) == m.name {
				m.state = state(x)
			}
		}
		members = append(members, m)
	}
	return members
}

func (s *situation) find(name string) *listed {
	for i := range s.members {
		if s.members[i].name == name {
			return &s.members[i]
		}
	}
	return nil
}

// step is what comes next: a statement, or what is waited for; neither: it is done.
type step struct {
	does, waits string
	refused     error
}

// next is what a replacement comes to next. It is a function of the situation alone, but for the role of a new one that
// was just added: later, whether the old one was demoted before or by this is not to be told.
func (x *replacing) next(s situation) step {
	old, is := s.find(x.Old), s.find(x.Name)
	if err := x.wrong(old, is); err != nil {
		return step{refused: err}
	}
	switch {
	case is == nil:
		args := []string{x.Name, x.Address}
		if x.Clients != "" {
			args = append(args, x.Clients)
		}
		return step{does: call("add_member", args...)}
	case old == nil:
		return x.awaits(s, is)
	}
	if does := x.alike(old, is); does != "" {
		return step{does: does}
	}
	if s.oldMissed >= oldGoneAfter {
		return x.removes(s)
	}
	if is.state == "synced" && old.role == "voter" {
		return step{does: call(demotes, x.Old)}
	}
	if w := x.awaits(s, is); w.waits != "" {
		return w
	}
	return x.removes(s)
}

// wrong is why one member cannot take the place of the other.
func (x *replacing) wrong(old, is *listed) error {
	switch {
	case x.Name == x.Old:
		return fmt.Errorf("the new member needs another name than %s", x.Old)
	case old == nil && is == nil:
		return fmt.Errorf("%s is no member", x.Old)
	case old != nil && old.role == "witness":
		return fmt.Errorf("%s is a witness: remove it, and add another one", x.Old)
	case is == nil:
		return nil
	case is.address != x.Address || x.Clients != "" && is.clients != x.Clients || is.role == "witness":
		return fmt.Errorf("%s is a member already, at %s (clients: %s): choose another name, or say its addresses if "+
			"it is the new one", x.Name, is.address, is.clients)
	}
	return nil
}

// alike gives the new member what the old one has of the order.
func (x *replacing) alike(old, is *listed) string {
	switch {
	case is.rank != old.rank:
		return call("rank_member", x.Name, old.rank)
	case is.site == "" && old.site != "":
		return call("site_member", x.Name, old.site)
	case x.added && old.role == "learner" && is.role == "voter":
		return call(demotes, x.Name)
	}
	return ""
}

// removes is how the old member is removed, once the others go on without it.
func (x *replacing) removes(s situation) step {
	for _, v := range s.votes {
		who, err := v.numbers([]string{x.Old})
		if err == nil && !v.view.Removed(who[0]).GoesOn {
			return step{waits: fmt.Sprintf("%s cannot be removed yet: more of the others that vote in %s must be there",
				x.Old, v.database)}
		}
	}
	return step{does: call("remove_member", x.Old)}
}

// awaits is what is waited for until the new member has all, and who votes is settled without the old one.
func (x *replacing) awaits(s situation, is *listed) step {
	switch is.state {
	case "synced":
	case "unreachable":
		return step{waits: x.Name + " cannot be reached: start its node"}
	default:
		return step{waits: x.Name + " is " + is.state}
	}
	for _, v := range s.votes {
		who, err := v.numbers([]string{x.Name})
		switch {
		case err != nil || !slices.Contains(v.view.There, who[0]):
			return step{waits: x.Name + " is not there yet in " + v.database}
		case !v.view.Settled():
			return step{waits: "who votes in " + v.database + " is changing: " + v.list(v.view.Voters)}
		}
	}
	return step{}
}

// call is a CALL of a procedure that changes the list of members.
func call(procedure string, args ...string) string {
	var list []string
	for _, a := range args {
		list = append(list, "'"+strings.ReplaceAll(a, "'", "''")+"'")
	}
	return "CALL tutti." + procedure + "(" + strings.Join(list, ", ") + ")"
}
