package membership

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
)

// Options are the main database as a change needs it.
type Options struct {
	Config *config.Config
	Conn   *pgx.Conn // to the main database, without a transaction
	// Note runs a statement in one transaction with the progress up to last.
	Note func(ctx context.Context, last uint64, sql string, args ...any) error
	// NoteProgress notes the progress up to last.
	NoteProgress func(ctx context.Context, last uint64) error
	// Raised says that the cluster's level has been raised: who does not understand it is to be refused from now on.
	Raised func()
}

// Carry carries out what a definition does to the list of members, at its ordinal, and notes the progress up to last.
// It gives the list that comes of it, nil if it is refused. An error is this member's alone; what all members are
// refused is in the result.
func Carry(ctx context.Context, o Options, last, ordinal uint64, d session.Definition) (*config.Roster, session.Result,
	error) {
	c := change{Membership: d.Membership, ordinal: ordinal, step: o.Config.SequenceStep}
	var err error
	if c.role, c.super, err = roleOf(ctx, o.Conn, d); err != nil {
		return nil, session.Result{}, err
	}
	list, err := read(ctx, o.Conn)
	if err != nil {
		return nil, session.Result{}, err
	}
	if len(list) == 0 {
		list = beginning(d.Began)
	}
	next, refused := c.next(list)
	if refused != nil {
		return nil, session.Result{Err: refused}, o.NoteProgress(ctx, last)
	}
	text, err := json.Marshal(next)
	if err != nil {
		return nil, session.Result{}, fmt.Errorf("membership: %w", err)
	}
	const sql = "INSERT INTO tutti.member AS m SELECT * FROM pg_catalog.json_populate_recordset(NULL::tutti.member, " +
		"$1::pg_catalog.json) ON CONFLICT (number) DO UPDATE SET name = excluded.name, address = excluded.address, " +
		"clients = excluded.clients, first = excluded.first, since = excluded.since, changed = excluded.changed, " +
		"removed = excluded.removed, role = excluded.role, rank = excluded.rank, site = excluded.site"
	if err := o.Note(ctx, last, sql, string(text)); err != nil {
		return nil, session.Result{}, err
	}
	return roster(next), session.Result{Tag: "CALL"}, nil
}

// roleOf is the role of a definition, and whether it is a superuser here.
func roleOf(ctx context.Context, conn *pgx.Conn, d session.Definition) (role string, super bool, err error) {
	for _, s := range d.Settings {
		if s.Name == session.RoleSetting {
			role = s.Value
		}
	}
	err = conn.QueryRow(ctx, "SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = $1", role).Scan(&super)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return role, false, fmt.Errorf("membership: look up a role: %w", err)
	}
	return role, super, nil
}

// change is one that is carried out.
type change struct {
	semantics.Membership
	ordinal uint64
	step    int // as many members as there can be
	role    string
	super   bool // the role is a superuser
}

// next is the list behind the change, or why it is refused (MB4).
func (c *change) next(list []row) ([]row, *wire.SQLError) {
	list = slices.Clone(list)
	if !c.super {
		return nil, wire.Errorf(wire.CodeInsufficientPrivilege, "permission denied to change the list of members").
			WithHint("Only superusers add and remove members.")
	}
	at := slices.IndexFunc(list, func(r row) bool { return !r.Removed && r.Name == c.Name })
	adds := c.Does == semantics.AddsMember || c.Does == semantics.AddsWitness
	if at < 0 && !adds {
		return nil, wire.Errorf(wire.CodeUndefinedObject, "member \"%s\" does not exist", c.Name)
	}
	if adds || c.Does == semantics.MovesMember {
		if e := c.address(list); e != nil {
			return nil, e
		}
	}
	if adds {
		if at >= 0 {
			return nil, wire.Errorf(wire.CodeDuplicateObject, "member \"%s\" already exists", c.Name)
		}
		return c.add(list)
	}
	if e := c.refuses(list, at); e != nil {
		return nil, e
	}
	list[at].Changed = c.ordinal
	c.change(&list[at])
	return list, nil
}

// change carries out a change of one member's row.
func (c *change) change(r *row) {
	switch c.Does {
	case semantics.RemovesMember:
		r.Removed = true
	case semantics.MovesMember:
		if r.Address = c.Address; c.Clients != "" {
			r.Clients = c.Clients
		}
	case semantics.DemotesMember:
		r.Role = config.Learner
	case semantics.PromotesMember:
		r.Role = config.Voter
	case semantics.RanksMember:
		r.Rank = int(c.Rank)
	case semantics.SitesMember:
		r.Site = c.Site
	}
}

// refuses is why a member's row cannot be changed: a witness has no other role, and somebody must be left who votes and
// has a database (MB5).
func (c *change) refuses(list []row, at int) *wire.SQLError {
	leaves := c.Does == semantics.RemovesMember || c.Does == semantics.DemotesMember
	if c.Does == semantics.DemotesMember || c.Does == semantics.PromotesMember {
		if list[at].Role == config.Witness {
			return wire.Errorf(wire.CodeObjectNotInState, "member \"%s\" is a witness", c.Name).
				WithHint("Remove it, and add another member.")
		}
	}
	others := false
	for i, r := range list {
		others = others || i != at && !r.Removed && r.Role == config.Voter
	}
	if leaves && list[at].Role == config.Voter && !others {
		return wire.Errorf(wire.CodeObjectInUse, "member \"%s\" is the last one that votes and has a database", c.Name)
	}
	return nil
}

// address refuses addresses that are none, or another member's.
func (c *change) address(list []row) *wire.SQLError {
	if c.Name == "" {
		return wire.Errorf(wire.CodeInvalidParameterValue, "a member needs a name")
	}
	for _, a := range []string{c.Address, c.Clients} {
		host, port, err := net.SplitHostPort(a)
		if given := a != "" || a == c.Address; given && (err != nil || host == "" || port == "") {
			return wire.Errorf(wire.CodeInvalidParameterValue, "address \"%s\" is not host:port", a)
		}
	}
	for _, r := range list {
		if !r.Removed && r.Name != c.Name && r.Address == c.Address {
			return wire.Errorf(wire.CodeDuplicateObject, "address \"%s\" is that of member \"%s\"", c.Address, r.Name)
		}
	}
	return nil
}

// add gives a member the lowest number that nobody has had (MB2).
func (c *change) add(list []row) ([]row, *wire.SQLError) {
	is := row{Name: c.Name, Address: c.Address, Clients: c.Clients, Since: c.ordinal, Changed: c.ordinal}
	if c.Does == semantics.AddsWitness {
		is.Role = config.Witness
	}
	for n := uint32(1); n <= uint32(c.step); n++ {
		at, had := slices.BinarySearchFunc(list, n, func(r row, n uint32) int { return int(r.Number) - int(n) })
		if !had {
			is.Number = n
			return slices.Insert(list, at, is), nil
		}
	}
	return nil, wire.Errorf(wire.CodeConfigurationLimit, "all %d numbers of members have been used (sequence_step)",
		c.step).WithHint("A machine that takes the place of another one can have its number: tutti.move_member.")
}
