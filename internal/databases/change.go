package databases

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/failure"
	"github.com/tuttidb/tutti/internal/process"
	"github.com/tuttidb/tutti/internal/replay"
	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
)

// Replicas are those of a member's databases.
type Replicas interface {
	// Start makes and runs that of a database that is open now.
	Start(id uint64, name string) error
	// End ends that of a database, and its sessions, and waits for it; there may be none.
	End(id uint64)
	// Runs reports whether a database has one.
	Runs(id uint64) bool
	// Retire keeps the log of a database that was dropped at an ordinal, and has no replica any more.
	Retire(id, dropped uint64) error
}

// Progress is what was carried out in the main database (replay.Applier).
type Progress interface {
	// Note runs a statement that changes the list in one transaction with the progress up to last.
	Note(ctx context.Context, last uint64, sql string, args ...any) error
	// NoteProgress notes the progress up to last.
	NoteProgress(ctx context.Context, last uint64) error
}

// Options are the main database as a change needs it.
type Options struct {
	Log      *slog.Logger
	Replicas Replicas
	Progress Progress
	// Voters are who votes on the main database's order where the change stands; nil: all with whom the cluster began.
	// Roster is who the members are there; nil: as at the beginning.
	Voters []uint32
	Roster *config.Roster
	// List is a connection to the main database, without a transaction; Conn is one on which statements run with the
	// rights of their roles. Carry closes neither.
	List *pgx.Conn
	Conn *pgconn.PgConn
}

// refusalOf gives what PostgreSQL refuses alike at every member; nil for other errors.
func refusalOf(err error) *pgconn.PgError {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && !failure.Environmental(pg) {
		return pg
	}
	return nil
}

func refused(code, format string, args ...any) error {
	return &pgconn.PgError{Severity: "ERROR", SeverityUnlocalized: "ERROR", Code: code,
		Message: fmt.Sprintf(format, args...)}
}

// Carry carries out what a definition does to a database, at its ordinal, and notes the progress up to last. It may
// have been broken off half way before (DB1). An error is this member's alone; what all members are refused is in the
// result.
func Carry(ctx context.Context, o Options, last, ordinal uint64, d session.Definition) (session.Result, error) {
	c := &change{Options: o, last: last, ordinal: ordinal, Definition: d}
	for _, s := range d.Settings {
		if s.Name == session.RoleSetting {
			c.role = s.Value
		}
	}
	var err error
	switch d.Database.Does {
	case semantics.CreatesDatabase:
		err = c.create(ctx)
	case semantics.DropsDatabase:
		err = c.drop(ctx)
	default:
		err = c.rename(ctx)
	}
	if pg := refusalOf(err); pg != nil {
		if err := o.Progress.Note(ctx, last, "DELETE FROM tutti.database WHERE id = $1 AND state = $2", ordinal,
			Creating); err != nil {
			return session.Result{}, err
		}
		return session.Result{Err: &wire.SQLError{ErrorFields: replay.ErrorFields(pg)}}, nil
	}
	return c.out, err
}

// change is one such definition being carried out.
type change struct {
	Options
	session.Definition
	last, ordinal uint64
	role          string

	out session.Result
}

// exec runs one statement with the rights of a role, or with Tutti's own if it is empty.
func (c *change) exec(ctx context.Context, role, sql string) (err error) {
	if role != "" {
		if _, err := c.Conn.Exec(ctx, "SET ROLE "+pgx.Identifier{role}.Sanitize()).ReadAll(); err != nil {
			return err
		}
		defer func() {
			if _, e := c.Conn.Exec(ctx, "RESET ROLE").ReadAll(); err == nil {
				err = e
			}
		}()
	}
	for {
		_, err = c.Conn.Exec(ctx, sql).ReadAll()
		var pg *pgconn.PgError
		if !errors.As(err, &pg) || pg.Code != wire.CodeObjectInUse {
			return err
		}
		c.Log.Warn("a database is in use; trying again", "error", err)
		if !process.Sleep(ctx, 100*time.Millisecond) {
			return ctx.Err()
		}
	}
}

// has reports whether a query gives a row.
func (c *change) has(ctx context.Context, sql string, args ...string) (bool, error) {
	params := make([][]byte, len(args))
	for i, a := range args {
		params[i] = []byte(a)
	}
	r := c.Conn.ExecParams(ctx, sql, params, nil, nil, nil).Read()
	return len(r.Rows) > 0, r.Err
}

const isDatabase = "SELECT FROM pg_catalog.pg_database WHERE datname = $1"

func (c *change) create(ctx context.Context) error {
	name := c.Database.Name
	begun, err := c.has(ctx, "SELECT FROM tutti.database WHERE id = $1::pg_catalog.int8", fmt.Sprint(c.ordinal))
	if err != nil {
		return err
	}
	if begun {
		err = c.exec(ctx, "", "DROP DATABASE IF EXISTS "+pgx.Identifier{name}.Sanitize()+" WITH (FORCE)")
	} else {
		var exists bool
		if exists, err = c.has(ctx, isDatabase, name); err == nil && exists {
			return refused(wire.CodeDuplicateDatabase, "database \"%s\" already exists", name)
		}
		voters, learners := c.first()
		if err == nil {
			_, err = c.List.Exec(ctx, "INSERT INTO tutti.database (id, name, state, voters, learners) VALUES "+
				"($1, $2, $3, $4, $5)", c.ordinal, name, Creating, voters, learners)
		}
	}
	if err == nil {
		err = c.exec(ctx, c.role, c.SQL)
	}
	if err == nil {
		err = c.Progress.Note(ctx, c.last, "UPDATE tutti.database SET state = $2 WHERE id = $1", c.ordinal,
			Open)
	}
	if err != nil {
		return err
	}
	c.out.Tag = "CREATE DATABASE"
	return c.Replicas.Start(c.ordinal, name)
}

// first is who votes at first on the order of a database that is created, and who only gets it; nil: all members, and
// all others. Once the order has changed who the members are, only they do: all with a database if none
// of these is left who votes on the main order.
func (c *change) first() (voters, learners []uint32) {
	switch {
	case c.Roster == nil && c.ByVoters:
		return c.Voters, nil
	case c.Roster == nil:
		return nil, nil
	}
	learners = []uint32{} // not NULL
	votes := func(m config.Member) bool {
		return slices.Contains(c.Voters, m.Member) || c.Voters == nil && slices.Contains(c.Roster.First, m.Member)
	}
	some := slices.ContainsFunc(c.Roster.Members, votes)
	for _, m := range slices.Concat(c.Roster.Members, c.Roster.Witnesses) {
		if some && votes(m) || !some && m.Role != config.Witness {
			voters = append(voters, m.Member)
		} else {
			learners = append(learners, m.Member)
		}
	}
	return voters, learners
}

// listed finds the database that is meant; nil if it is not in the list. PostgreSQL's own reasons come first.
func (c *change) listed(ctx context.Context) (*Listed, error) {
	list, err := List(ctx, c.List)
	if err != nil {
		return nil, err
	}
	for i := range list {
		if list[i].Name == c.Database.Name && list[i].State != Dropped {
			return &list[i], nil
		}
	}
	exists, err := c.has(ctx, isDatabase, c.Database.Name)
	switch {
	case err != nil:
		return nil, err
	case exists:
		return nil, &pgconn.PgError{Severity: "ERROR", SeverityUnlocalized: "ERROR", Code: wire.CodeFeatureNotSupported,
			Message: fmt.Sprintf("database \"%s\" is not one of those this cluster replicates", c.Database.Name),
			Hint:    "Drop or rename it at each member's own PostgreSQL."}
	case !c.Database.IfExists:
		return nil, refused(wire.CodeInvalidCatalogName, "database \"%s\" does not exist", c.Database.Name)
	}
	return nil, nil
}

func (c *change) drop(ctx context.Context) error {
	c.out.Tag = "DROP DATABASE"
	d, err := c.listed(ctx)
	if err != nil {
		return err
	}
	if d == nil {
		c.out.Notices = append(c.out.Notices, wire.AppendNoticeResponse(nil,
			wire.ErrorFields{Severity: wire.SeverityNotice, Code: wire.CodeSuccess,
				Message: "database \"" + c.Database.Name + "\" does not exist, skipping"}))
		return c.Progress.NoteProgress(ctx, c.last)
	}
	if d.State != Dropping {
		owns, err := c.has(ctx, isDatabase+" AND (pg_catalog.pg_has_role($2, datdba, 'USAGE'))", d.Name, c.role)
		if err != nil {
			return err
		}
		if !owns {
			return refused(wire.CodeInsufficientPrivilege, "must be owner of database %s", d.Name)
		}
		if _, err := c.List.Exec(ctx, "UPDATE tutti.database SET state = $2 WHERE id = $1", d.ID,
			Dropping); err != nil {
			return err
		}
	}
	c.Replicas.End(d.ID)
	if err := c.exec(ctx, "", "DROP DATABASE IF EXISTS "+pgx.Identifier{d.Name}.Sanitize()+" WITH (FORCE)"); err !=
		nil {
		return err
	}
	if err := c.Progress.Note(ctx, c.last, "UPDATE tutti.database SET state = $2, dropped = $3 WHERE id = $1", d.ID,
		Dropped, c.ordinal); err != nil {
		return err
	}
	return c.Replicas.Retire(d.ID, c.ordinal)
}

func (c *change) rename(ctx context.Context) error {
	c.out.Tag = "ALTER DATABASE"
	d, err := c.listed(ctx)
	if err != nil {
		return err
	}
	done, err := c.has(ctx, isDatabase+" AND NOT EXISTS (SELECT FROM pg_catalog.pg_database WHERE datname = $2)",
		c.Database.To, d.Name)
	if err != nil {
		return err
	}
	var failed error
	if !done {
		c.Replicas.End(d.ID)
		if err := c.exec(ctx, "", "SELECT pg_catalog.pg_terminate_backend(pid) FROM pg_catalog.pg_stat_activity "+
			"WHERE datname = '"+replay.Literal(d.Name)+"'"); err != nil {
			return err
		}
		failed = c.exec(ctx, c.role, c.SQL)
	}
	name := c.Database.To
	if failed != nil {
		if name = d.Name; refusalOf(failed) == nil {
			return failed
		}
	} else if err := c.Progress.Note(ctx, c.last, "UPDATE tutti.database SET name = $2 WHERE id = $1", d.ID,
		name); err != nil {
		return err
	}
	if !c.Replicas.Runs(d.ID) {
		if err := c.Replicas.Start(d.ID, name); err != nil {
			return err
		}
	}
	return failed
}
