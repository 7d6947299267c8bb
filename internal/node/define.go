package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tuttidb/tutti/internal/database/catalog"
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
)

// define runs an ordered statement here, with the origin's role and settings, brings the
// capture triggers and sequences up to date in the same transaction, and notes the
// progress. A statement that fails, fails alike at every member; what can fail at one
// member only (disk, memory, shutdown) is an error, and the member starts again before it.
func (a *applier) define(ctx context.Context, last uint64, t engine.Task) (session.Result, error) {
	d, err := decodeDefinition(t.Item.Payload)
	if err != nil {
		return session.Result{}, &FatalError{err}
	}
	for {
		a.notices = nil
		tag, err := a.defineOnce(ctx, last, d)
		if err == nil {
			return session.Result{Tag: tag, Notices: a.noticeFrames()}, a.prepare(ctx)
		}
		if transient(err) {
			if !sleep(ctx, 5*time.Millisecond) {
				return session.Result{}, ctx.Err()
			}
			continue
		}
		var pg *pgconn.PgError
		if !errors.As(err, &pg) || environmental(pg.Code) {
			return session.Result{}, err
		}
		if err := a.noteProgress(ctx, last); err != nil {
			return session.Result{}, err
		}
		return session.Result{Notices: a.noticeFrames(), Err: &wire.SQLError{ErrorFields: errorFields(pg)}}, nil
	}
}

// environmental reports whether an error comes from this machine, not from the statement.
func environmental(code string) bool {
	switch {
	case code == "58P01", code == "58P02": // undefined or duplicate file: the same everywhere
		return false
	}
	for _, class := range []string{"08", "53", "57", "58"} {
		if strings.HasPrefix(code, class) {
			return true
		}
	}
	return false
}

func (a *applier) defineOnce(ctx context.Context, last uint64, d session.Definition) (tag string, err error) {
	tx, err := a.pgx.Begin(ctx)
	if err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, tx.Rollback(ctx))
		}
	}()
	if err := a.assume(ctx, d); err != nil {
		return "", err
	}
	results, err := a.conn.Exec(ctx, d.SQL).ReadAll()
	if err != nil {
		return "", err
	}
	for _, r := range results {
		tag = r.CommandTag.String()
	}
	if _, err := tx.Exec(ctx, "RESET ROLE; SET LOCAL session_replication_role = replica; SET LOCAL search_path = pg_catalog; SET LOCAL client_min_messages = warning"); err != nil {
		return "", err
	}
	if err := a.follow(ctx, tx); err != nil {
		return "", err
	}
	if _, err := tx.Exec(ctx, "UPDATE tutti.progress SET ordinal = $1", int64(last)); err != nil {
		return "", err
	}
	return tag, tx.Commit(ctx)
}

// assume sets the origin's settings and role for the open transaction.
func (a *applier) assume(ctx context.Context, d session.Definition) error {
	sql := "SET LOCAL session_replication_role = origin; SET LOCAL tutti.ddl = 'on'; SET LOCAL tutti.tx = 'on'"
	for _, s := range d.Settings {
		if s.Name == "role" {
			continue
		}
		sql += fmt.Sprintf("; SELECT pg_catalog.set_config('%s', '%s', true)", literal(s.Name), literal(s.Value))
	}
	for _, s := range d.Settings {
		if s.Name == "role" {
			sql += "; SET LOCAL ROLE " + pgx.Identifier{s.Value}.Sanitize()
		}
	}
	_, err := a.conn.Exec(ctx, sql).ReadAll()
	return err
}

func literal(s string) string { return strings.ReplaceAll(s, "'", "''") }

// follow makes triggers and sequences fit the changed schema.
func (a *applier) follow(ctx context.Context, tx pgx.Tx) error {
	if err := catalog.Refresh(ctx, tx); err != nil {
		return err
	}
	if err := catalog.AlignSequences(ctx, tx, int(a.config.Member), a.config.SequenceStep); err != nil {
		return err
	}
	tables, err := catalog.Describe(ctx, tx)
	if err != nil {
		return err
	}
	a.tables = tables
	return nil
}

// noteProgress records that a statement was dealt with although it changed nothing.
func (a *applier) noteProgress(ctx context.Context, last uint64) error {
	r := a.conn.ExecPrepared(ctx, applyProgress, [][]byte{text(last)}, nil, nil).Read()
	return r.Err
}

// noticeFrames are the notices of the last statement, for its client.
func (a *applier) noticeFrames() [][]byte {
	var out [][]byte
	for _, n := range a.notices {
		out = append(out, wire.AppendNoticeResponse(nil, errorFields((*pgconn.PgError)(n))))
	}
	a.notices = nil
	return out
}

func errorFields(e *pgconn.PgError) wire.ErrorFields {
	return wire.ErrorFields{
		Severity: e.Severity, SeverityUnlocalized: e.SeverityUnlocalized, Code: e.Code, Message: e.Message, Detail: e.Detail, Hint: e.Hint,
		Position: e.Position, InternalPosition: e.InternalPosition, InternalQuery: e.InternalQuery, Where: e.Where,
		Schema: e.SchemaName, Table: e.TableName, Column: e.ColumnName, DataType: e.DataTypeName, Constraint: e.ConstraintName,
		File: e.File, Line: e.Line, Routine: e.Routine,
	}
}
