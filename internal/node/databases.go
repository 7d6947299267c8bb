package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tuttidb/tutti/internal/apply"
	"github.com/tuttidb/tutti/internal/database/link"
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/failure"
	"github.com/tuttidb/tutti/internal/process"
	"github.com/tuttidb/tutti/internal/replay"
	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
)

// The main database lists the others in tutti.database, under the ordinal at which each was created.

// States of a database in the list.
const (
	databaseCreating = "creating" // PostgreSQL's may be there, half made
	databaseOpen     = "open"
	databaseDropping = "dropping" // PostgreSQL's may be gone
	databaseDropped  = "dropped"  // other members may still need its order, see ghost
)

// listed is a row of the list.
type listed struct {
	id          uint64
	name, state string
	dropped     uint64 // ordinal of its end
}

// listDatabases reads the list.
func (l *life) listDatabases(ctx context.Context) ([]listed, error) {
	rows, err := l.applier.Pgx.Query(ctx, "SELECT id, name, state, dropped FROM tutti.database ORDER BY id")
	if err != nil {
		return nil, fmt.Errorf("node: read the list of databases: %w", err)
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (d listed, err error) {
		err = row.Scan(&d.id, &d.name, &d.state, &d.dropped)
		return d, err
	})
}

// mayChange refuses, where a statement comes from, what it may not do to a database.
func (t *tenure) mayChange(from *life, d semantics.Database) *wire.SQLError {
	if d.Does == semantics.NoDatabase {
		return nil
	}
	main := t.life(mainGroup)
	if main == nil || !main.ready.Load() {
		return errNotReady()
	}
	if d.Does == semantics.CreatesDatabase {
		there, limit := t.count(), t.node.config.Limits.Databases
		if there >= limit {
			return wire.Errorf(wire.CodeConfigurationLimit, "there are %d databases already (limits.databases)", there).
				WithDetail("Dropped ones count until every member has dropped them.")
		}
		return nil
	}
	l := t.named(d.Name)
	switch {
	case d.Name == from.database && d.Does == semantics.DropsDatabase:
		return wire.Errorf(wire.CodeObjectInUse, "cannot drop the currently open database")
	case d.Name == from.database:
		return wire.Errorf(wire.CodeFeatureNotSupported, "current database cannot be renamed")
	case d.Name == main.database:
		return wire.Errorf(wire.CodeFeatureNotSupported,
			"database %q can neither be dropped nor renamed: its order has what all databases share", d.Name)
	case l == nil || d.Force:
		return nil
	}
	others := l.peers.Clients()
	if others == 0 {
		return nil
	}
	detail := "There is 1 other session using the database."
	if others > 1 {
		detail = fmt.Sprintf("There are %d other sessions using the database.", others)
	}
	return wire.Errorf(wire.CodeObjectInUse, "database %q is being accessed by other users", d.Name).WithDetail("%s",
		detail)
}

// awaitDatabase waits until clients can use a database that was created, or for a while.
func (t *tenure) awaitDatabase(name string) {
	l := t.named(name)
	if l == nil {
		return
	}
	timeout := time.NewTimer(databaseWait)
	defer timeout.Stop()
	select {
	case <-l.opened:
	case <-l.done:
	case <-timeout.C:
	}
}

// await looks for a database that is not known here once everything is applied that was ordered before now: its
// creation may have been answered at another member. It looks for one at a time, for databaseWait at most: then it is
// not known whether there is one.
func (t *tenure) await(ctx context.Context, name string) (l *life, known bool) {
	ctx, cancel := context.WithTimeout(ctx, databaseWait)
	defer cancel()
	select {
	case t.looking <- struct{}{}:
		defer func() { <-t.looking }()
	case <-ctx.Done():
		return nil, false
	}
	main := t.life(mainGroup)
	if l := t.named(name); l != nil || main == nil {
		return l, l != nil
	}
	seq := main.seq.Add(1)
	main.core.Do(func(e *engine.Engine) { e.Submit(engine.Submission{Kind: engine.KindFence, Seq: seq}) })
	alone := loneliness{}
	for !main.resolved(seq) {
		if main.ending() || alone.lasts(t.leaderless()) || !process.Sleep(ctx, time.Millisecond) {
			return nil, false
		}
	}
	var decided uint64
	main.core.Call(func(e *engine.Engine) { decided = e.Ordinal() })
	for main.core.Applied() < decided {
		if main.ending() || !process.Sleep(ctx, time.Millisecond) {
			return nil, false
		}
	}
	return t.named(name), true
}

// refusalOf gives what PostgreSQL refuses alike at every member; nil for other errors.
func refusalOf(err error) *pgconn.PgError {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && !failure.Environmental(pg.Code) {
		return pg
	}
	return nil
}

func refused(code, format string, args ...any) error {
	return &pgconn.PgError{Severity: "ERROR", SeverityUnlocalized: "ERROR", Code: code,
		Message: fmt.Sprintf(format, args...)}
}

// changeDatabases carries out what a definition does to the list of databases, and notes the progress. It may have been
// broken off half way before. What cannot be done now, because of who is connected, is tried again.
func (l *life) changeDatabases(ctx context.Context, last, ordinal uint64, d session.Definition) (session.Result,
	error) {
	l.applier.Begun.Store(last)
	conn, err := link.Connect(ctx, l.connString, "tutti databases", apply.SessionSettings())
	if err != nil {
		return session.Result{}, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	defer l.running.backends.Instead(conn.PID())() // whoever blocks it loses
	c := &databaseChange{life: l, conn: conn, last: last, ordinal: ordinal, Definition: d}
	for _, s := range d.Settings {
		if s.Name == session.RoleSetting {
			c.role = s.Value
		}
	}
	switch d.Database.Does {
	case semantics.CreatesDatabase:
		err = c.create(ctx)
	case semantics.DropsDatabase:
		err = c.drop(ctx)
	default:
		err = c.rename(ctx)
	}
	if pg := refusalOf(err); pg != nil {
		if err := l.applier.Note(ctx, last, "DELETE FROM tutti.database WHERE id = $1 AND state = $2", ordinal,
			databaseCreating); err != nil {
			return session.Result{}, err
		}
		return session.Result{Err: &wire.SQLError{ErrorFields: replay.ErrorFields(pg)}}, nil
	}
	return session.Result{Tag: c.tag, Notices: c.notices}, err
}

// databaseChange is one such definition being carried out.
type databaseChange struct {
	session.Definition
	life          *life
	conn          *pgconn.PgConn
	last, ordinal uint64
	role          string

	tag     string
	notices [][]byte
}

// exec runs one statement with the rights of a role, or with Tutti's own if it is empty.
func (c *databaseChange) exec(ctx context.Context, role, sql string) (err error) {
	if role != "" {
		if _, err := c.conn.Exec(ctx, "SET ROLE "+pgx.Identifier{role}.Sanitize()).ReadAll(); err != nil {
			return err
		}
		defer func() {
			if _, e := c.conn.Exec(ctx, "RESET ROLE").ReadAll(); err == nil {
				err = e
			}
		}()
	}
	for {
		_, err = c.conn.Exec(ctx, sql).ReadAll()
		var pg *pgconn.PgError
		if !errors.As(err, &pg) || pg.Code != wire.CodeObjectInUse {
			return err
		}
		c.life.log.Warn("a database is in use; trying again", "error", err)
		if !process.Sleep(ctx, 100*time.Millisecond) {
			return ctx.Err()
		}
	}
}

// has reports whether a query gives a row.
func (c *databaseChange) has(ctx context.Context, sql string, args ...string) (bool, error) {
	params := make([][]byte, len(args))
	for i, a := range args {
		params[i] = []byte(a)
	}
	r := c.conn.ExecParams(ctx, sql, params, nil, nil, nil).Read()
	return len(r.Rows) > 0, r.Err
}

const isDatabase = "SELECT FROM pg_catalog.pg_database WHERE datname = $1"

func (c *databaseChange) create(ctx context.Context) error {
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
		if err == nil {
			_, err = c.life.applier.Pgx.Exec(ctx, "INSERT INTO tutti.database (id, name, state) VALUES ($1, $2, $3)",
				c.ordinal, name, databaseCreating)
		}
	}
	if err == nil {
		err = c.exec(ctx, c.role, c.SQL)
	}
	if err == nil {
		err = c.life.applier.Note(ctx, c.last, "UPDATE tutti.database SET state = $2 WHERE id = $1", c.ordinal,
			databaseOpen)
	}
	if err != nil {
		return err
	}
	c.tag = "CREATE DATABASE"
	return c.life.tenure.start(c.ordinal, name)
}

// listed finds the database that is meant; nil if it is not in the list. PostgreSQL's own reasons come first.
func (c *databaseChange) listed(ctx context.Context) (*listed, error) {
	list, err := c.life.listDatabases(ctx)
	if err != nil {
		return nil, err
	}
	for i := range list {
		if list[i].name == c.Database.Name && list[i].state != databaseDropped {
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

func (c *databaseChange) drop(ctx context.Context) error {
	c.tag = "DROP DATABASE"
	d, err := c.listed(ctx)
	if err != nil {
		return err
	}
	if d == nil {
		c.notices = append(c.notices, wire.AppendNoticeResponse(nil,
			wire.ErrorFields{Severity: wire.SeverityNotice, Code: wire.CodeSuccess,
				Message: "database \"" + c.Database.Name + "\" does not exist, skipping"}))
		return c.life.applier.NoteProgress(ctx, c.last)
	}
	if d.state != databaseDropping {
		owns, err := c.has(ctx, isDatabase+" AND (pg_catalog.pg_has_role($2, datdba, 'USAGE'))", d.name, c.role)
		if err != nil {
			return err
		}
		if !owns {
			return refused(wire.CodeInsufficientPrivilege, "must be owner of database %s", d.name)
		}
		if _, err := c.life.applier.Pgx.Exec(ctx, "UPDATE tutti.database SET state = $2 WHERE id = $1", d.id,
			databaseDropping); err != nil {
			return err
		}
	}
	c.life.tenure.end(d.id)
	if err := c.exec(ctx, "", "DROP DATABASE IF EXISTS "+pgx.Identifier{d.name}.Sanitize()+" WITH (FORCE)"); err !=
		nil {
		return err
	}
	if err := c.life.applier.Note(ctx, c.last, "UPDATE tutti.database SET state = $2, dropped = $3 WHERE id = $1", d.id,
		databaseDropped, c.ordinal); err != nil {
		return err
	}
	return c.life.tenure.haunt(d.id, c.ordinal)
}

func (c *databaseChange) rename(ctx context.Context) error {
	c.tag = "ALTER DATABASE"
	d, err := c.listed(ctx)
	if err != nil {
		return err
	}
	done, err := c.has(ctx, isDatabase+" AND NOT EXISTS (SELECT FROM pg_catalog.pg_database WHERE datname = $2)",
		c.Database.To, d.name)
	if err != nil {
		return err
	}
	var failed error
	if !done {
		c.life.tenure.end(d.id)
		if err := c.exec(ctx, "", "SELECT pg_catalog.pg_terminate_backend(pid) FROM pg_catalog.pg_stat_activity "+
			"WHERE datname = '"+replay.Literal(d.name)+"'"); err != nil {
			return err
		}
		failed = c.exec(ctx, c.role, c.SQL)
	}
	name := c.Database.To
	if failed != nil {
		if name = d.name; refusalOf(failed) == nil {
			return failed
		}
	} else if err := c.life.applier.Note(ctx, c.last, "UPDATE tutti.database SET name = $2 WHERE id = $1", d.id,
		name); err != nil {
		return err
	}
	if c.life.tenure.life(d.id) == nil {
		if err := c.life.tenure.start(d.id, name); err != nil {
			return err
		}
	}
	return failed
}
