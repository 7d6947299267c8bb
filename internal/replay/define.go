package replay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tuttidb/tutti/internal/capture"
	"github.com/tuttidb/tutti/internal/database/catalog"
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/failure"
	"github.com/tuttidb/tutti/internal/process"
	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
)

// Define runs an ordered statement here, with the origin's role and settings, brings the
// capture triggers and sequences up to date in the same transaction, and notes the
// progress. A statement that fails, fails alike at every member; what can fail at one
// member only (disk, memory, shutdown) is an error, and the member starts again before it.
func (a *Applier) Define(ctx context.Context, last uint64, t engine.Task, d session.Definition) (session.Result,
	error) {
	d.Extent = t.Writeset
	defer func() { a.yields = false }()
	var err error
	for a.Job.again() {
		var unmarked bool
		var tag string
		a.Notices = nil
		unmarked, tag, err = a.defineOnce(ctx, last, t.Item.ID.Member, d)
		if err == nil {
			return session.Result{Tag: tag, Notices: a.noticeFrames()}, a.Forget(ctx)
		}
		if failure.Transient(err) {
			if !process.Sleep(ctx, 5*time.Millisecond) {
				return session.Result{}, ctx.Err()
			}
			continue
		}
		if a.clears(err) {
			continue
		}
		var pg *pgconn.PgError
		if !errors.As(err, &pg) || failure.Environmental(pg) {
			return session.Result{}, err
		}
		if unmarked {
			d.Detach.Waits = true
			continue
		}
		if err := a.NoteDone(ctx, last); err != nil {
			return session.Result{}, err
		}
		return session.Result{Notices: a.noticeFrames(), Err: &wire.SQLError{ErrorFields: ErrorFields(pg)}}, nil
	}
	return session.Result{}, err
}

// clears reports whether a definition is to be tried once more, with temporary objects of sessions out of its way:
// there may be some at this member alone. PostgreSQL tells what is in the way, with the schema of another session's,
// but for tables that inherit or have columns of a type.
func (a *Applier) clears(err error) bool {
	var pg *pgconn.PgError
	if a.yields || a.rehearses || !errors.As(err, &pg) || pg.Code != "2BP01" && pg.Code != "0A000" {
		return false
	}
	a.heirs = pg.Detail == ""
	for _, line := range strings.Split(pg.Detail, "\n") {
		if !a.heirs && !strings.Contains(line, "pg_temp_") {
			return false // something else is
		}
	}
	a.yields = true
	return true
}

// giveWay has temporary objects give way to a definition; heirs is as capture.YieldStatement has it.
func giveWay(ctx context.Context, conn *pgx.Conn, sql string, heirs bool) error {
	subjects := semantics.Subjects(sql)
	if len(subjects) == 0 {
		return nil
	}
	list, err := json.Marshal(subjects)
	if err == nil {
		_, err = conn.Exec(ctx, capture.YieldStatement, string(list), heirs)
	}
	return err
}

func (a *Applier) defineOnce(ctx context.Context, last uint64, origin uint32, d session.Definition) (unmarked bool,
	tag string, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, a.Conn.ExecPrepared(ctx, ApplyRollback, nil, nil, nil).Read().Err)
		}
	}()
	before := a.begin() + a.assuming(origin, d, [2]string{capture.SessionSetting, capture.SessionDefines})
	if !d.Detach.Waits && d.Detach.Ends {
		if _, err := a.Conn.Exec(ctx, before).ReadAll(); err != nil {
			return unmarked, "", err
		}
		if unmarked, err = a.unmark(ctx, &d); err != nil {
			return unmarked, "", err
		}
		before = ""
	}
	if tag, err = a.runAs(ctx, before, d); err != nil {
		return unmarked, "", err
	}
	f, err := catalog.Look(ctx, a.Pgx, a.Tables, ownAgain...)
	if err == nil {
		err = within(&d, f)
	}
	if err != nil {
		return unmarked, "", err
	}
	tables, err := f.Install(ctx)
	if err != nil {
		return unmarked, "", err
	}
	a.Tables = tables
	return unmarked, tag, a.End(ctx, last, nil)
}

// within refuses a definition that has changed a table which it does not hold: then transactions that have written to
// the table may have been let through. That is so at every member, and its origin has it ordered again, as a barrier.
func within(d *session.Definition, f *catalog.Followed) error {
	if d.Extent.Barrier || d.Detach.Ends { // which its member may have done already
		return nil
	}
	table, err := capture.Beyond(d.Extent, f.Changed)
	if err == nil && table != "" && !semantics.SpellsFunction(d.SQL) {
		return &pgconn.PgError{Severity: "ERROR", SeverityUnlocalized: "ERROR", Code: wire.CodeTuttiWider,
			Message: fmt.Sprintf("the definition changes table %s, which it does not name", table)}
	}
	return err
}

// assuming are statements that set the origin's settings for the open transaction, and more; sequences made in it have
// their home there.
func (a *Applier) assuming(origin uint32, d session.Definition, more ...[2]string) string {
	own := [][2]string{{"session_replication_role", "origin"}, {capture.DDLSetting, capture.DDLOn},
		{capture.TransactionSetting, "on"}, {"plan_cache_mode", "auto"}}
	for _, s := range []string{"seqscan", "hashjoin", "mergejoin", "material", "memoize"} {
		own = append(own, [2]string{"enable_" + s, "on"}) // the query of a view is no operation of the applier's
	}
	sql, _ := setting(append(own, [2]string{capture.HomeSetting, fmt.Sprint(origin)}), d.Settings, more, true)
	return sql + anyTag + ";"
}

// anyTag has a definition that no event trigger tells of count as one that changes no table. What was noted of
// definitions before it, and is not followed up yet, is kept.
const anyTag = ", pg_catalog.set_config('tutti.tags', coalesce(nullif(pg_catalog.current_setting('tutti.tags', " +
	"true), ''), 'COMMENT'), true)"

// Set sets settings of ours, then the origin's, for the session, and returns the origin's role.
func (a *Applier) Set(ctx context.Context, own [][2]string, theirs []session.Setting) (role string, err error) {
	sql, role := setting(own, theirs, nil, false)
	_, err = a.Conn.Exec(ctx, sql).ReadAll()
	return role, err
}

// setting are statements that set settings of ours, then the origin's, then more, for the open transaction or the
// session; with the origin's role.
func setting(own [][2]string, theirs []session.Setting, more [][2]string, local bool) (sql, role string) {
	sql = "RESET ROLE; SELECT 1"
	add := func(name, value string) {
		sql += fmt.Sprintf(", pg_catalog.set_config('%s', '%s', %t)", Literal(name), Literal(value), local)
	}
	for _, s := range own {
		add(s[0], s[1])
	}
	for _, s := range theirs {
		if s.Name == session.RoleSetting {
			role = s.Value
		} else {
			add(s.Name, s.Value)
		}
	}
	for _, s := range more {
		add(s[0], s[1])
	}
	return sql, role
}

// runAs runs the statement with the rights of the origin's role. This connection is a
// superuser's, and code of users may run inside a definition (a CHECK that calls a
// function); it must not be able to RESET ROLE. So roles that are no superusers run it
// inside a SECURITY DEFINER function they own, where PostgreSQL refuses to change the role. Before are statements that
// set the origin's settings, each with a semicolon.
func (a *Applier) runAs(ctx context.Context, before string, d session.Definition) (tag string, err error) {
	role := ""
	for _, s := range d.Settings {
		if s.Name == session.RoleSetting {
			role = s.Value
		}
	}
	if a.yields {
		if _, err := a.Conn.Exec(ctx, before).ReadAll(); err != nil {
			return "", err
		}
		if err := giveWay(ctx, a.Pgx, d.SQL, a.heirs); err != nil {
			return "", err
		}
		before = ""
	}
	answers, err := a.Conn.Exec(ctx, before+capture.Ready(role, d.SQL)).ReadAll()
	if err != nil {
		return "", err
	}
	ready := answers[len(answers)-1].Rows[0]
	super, events := string(ready[0]) == "t", string(ready[1]) == "t"
	if ready[0] == nil {
		return "", &pgconn.PgError{Severity: "ERROR", SeverityUnlocalized: "ERROR", Code: "42704",
			Message: fmt.Sprintf("role %q does not exist", role)}
	}
	watched := events && quiet(d.SQL)
	if events && !watched {
		restore, failed := a.silence(ctx)
		if failed != nil {
			return "", failed
		}
		defer func() {
			if err == nil {
				err = restore()
			}
		}()
	}
	owner := pgx.Identifier{role}.Sanitize()
	if super && !events {
		return a.Run(ctx, "", d.SQL) // the role is set
	}
	if super {
		return a.Run(ctx, "SET LOCAL ROLE "+owner, d.SQL)
	}
	return a.runInside(ctx, owner, d.SQL, watched)
}

// silence keeps users' event triggers from firing until restore is called: they have fired at the origin, and what they
// did there is replicated.
func (a *Applier) silence(ctx context.Context) (restore func() error, err error) {
	rows, err := a.Pgx.Query(ctx, capture.SilenceEvents)
	if err != nil {
		return nil, err
	}
	var oids []uint32
	var states []string
	var oid uint32
	var state string
	if _, err := pgx.ForEachRow(rows, []any{&oid, &state}, func() error {
		oids, states = append(oids, oid), append(states, state)
		return nil
	}); err != nil {
		return nil, err
	}
	return func() error {
		if _, err := a.Conn.Exec(ctx, "RESET ROLE").ReadAll(); err != nil { // it may have lost its rights
			return err
		}
		_, err := a.Pgx.Exec(ctx, capture.RestoreEvents, oids, states)
		return err
	}, nil
}

// quiet reports whether no event trigger fires for a definition: it is about event triggers, or about what all
// databases share.
func quiet(sql string) bool {
	s := semantics.Classify(sql)
	return len(s) == 1 && s[0].Quiet
}

// runInside runs a statement inside a function of owner's. Watched: users' event triggers are not silent, and would
// fire for the function.
func (a *Applier) runInside(ctx context.Context, owner, sql string, watched bool) (tag string, err error) {
	const name = "tutti.run_definition(pg_catalog.text)"
	own := func(statements ...string) error {
		text := strings.Join(statements, ";")
		if watched {
			text = capture.Unseen(statements)
		}
		_, err := a.Conn.Exec(ctx, text).ReadAll()
		return err
	}
	if err := own("CREATE FUNCTION "+name+" RETURNS pg_catalog.void LANGUAGE plpgsql SECURITY DEFINER AS 'BEGIN "+
		"EXECUTE $1; END'",
		"REVOKE ALL ON FUNCTION "+name+" FROM PUBLIC", "ALTER FUNCTION "+name+" OWNER TO "+owner); err != nil {
		return "", err
	}
	_, err = a.Run(ctx, "SET LOCAL tutti.tag = ''", "SELECT tutti.run_definition('"+Literal(sql)+"')")
	for i, n := range a.Notices {
		a.Notices[i] = (*pgconn.Notice)(unwrapped((*pgconn.PgError)(n), sql))
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return "", unwrapped(pg, sql)
	}
	if err != nil {
		return "", err
	}
	if err := a.Pgx.QueryRow(ctx, "SELECT pg_catalog.current_setting('tutti.tag')").Scan(&tag); err != nil {
		return "", err
	}
	if tag == "" {
		tag = semantics.QuietTag(sql)
	}
	said := len(a.Notices) // DROP OWNED has dropped it, which is no news for the client
	err = own("DROP FUNCTION IF EXISTS " + name)
	a.Notices = a.Notices[:said]
	return tag, err
}

// Run executes a preparation, if there is one, and then text, and returns the last command tag of text.
func (a *Applier) Run(ctx context.Context, before, text string) (tag string, err error) {
	if before != "" {
		if _, err := a.Conn.Exec(ctx, before).ReadAll(); err != nil {
			return "", err
		}
	}
	results, err := a.Conn.Exec(ctx, text).ReadAll()
	for _, r := range results {
		tag = r.CommandTag.String()
	}
	return tag, err
}

// unwrapped takes runAs's function out of an error or a notice: the position is the one in the client's own
// text, and the context does not show the function.
func unwrapped(e *pgconn.PgError, sql string) *pgconn.PgError {
	out := *e
	if e.InternalQuery == sql {
		out.Position, out.InternalPosition, out.InternalQuery = e.InternalPosition, 0, ""
	}
	out.Where, _, _ = strings.Cut("\n"+e.Where, "\nPL/pgSQL function tutti.run_definition(text) ")
	out.Where = strings.TrimPrefix(strings.TrimSuffix(strings.TrimPrefix(out.Where, "\n"), "SQL statement \""+sql+"\""),
		"\n")
	out.Where = strings.TrimSuffix(out.Where, "\n")
	return &out
}

func Literal(s string) string { return strings.ReplaceAll(s, "'", "''") }

// follow makes triggers fit the changed schema. First are statements that go before.
func (a *Applier) follow(ctx context.Context, first ...string) error {
	f, err := catalog.Look(ctx, a.Pgx, a.Tables, first...)
	if err != nil {
		return err
	}
	tables, err := f.Install(ctx)
	if err == nil {
		a.Tables = tables
	}
	return err
}

// NoteProgress records that a statement was dealt with although it changed nothing. Others held keys meanwhile that it
// was ordered with, and have seen it.
func (a *Applier) NoteProgress(ctx context.Context, last uint64) error {
	r := a.Conn.ExecPrepared(ctx, applyProgress, a.progress(last), nil, binaryFormat).Read()
	if r.Err == nil && len(r.Rows) == 1 {
		if lsn, ok := a.written(r.Rows[0]); ok {
			a.Passed.Ending(last, lsn)
			a.Passed.Ended(true)
		}
	}
	return r.Err
}

// noticeFrames are the notices of the last statement, for its client.
func (a *Applier) noticeFrames() [][]byte {
	var out [][]byte
	for _, n := range a.Notices {
		out = append(out, wire.AppendNoticeResponse(nil, ErrorFields((*pgconn.PgError)(n))))
	}
	a.Notices = nil
	return out
}

func ErrorFields(e *pgconn.PgError) wire.ErrorFields {
	return wire.ErrorFields{
		Severity: e.Severity, SeverityUnlocalized: e.SeverityUnlocalized, Code: e.Code, Message: e.Message,
		Detail: e.Detail, Hint: e.Hint,
		Position: e.Position, InternalPosition: e.InternalPosition, InternalQuery: e.InternalQuery, Where: e.Where,
		Schema: e.SchemaName, Table: e.TableName, Column: e.ColumnName, DataType: e.DataTypeName,
		Constraint: e.ConstraintName,
		File:       e.File, Line: e.Line, Routine: e.Routine,
	}
}
