package membership

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tuttidb/tutti/internal/bootstrap"
	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
)

// readRecord gives the row of tutti.cluster; nil if there is none.
func readRecord(ctx context.Context, conn *pgx.Conn) (*bootstrap.Record, error) {
	r := &bootstrap.Record{}
	err := conn.QueryRow(ctx, "SELECT pg_catalog.to_json(c) FROM tutti.cluster c").Scan(r)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("membership: read what holds for the cluster: %w", err)
	}
	return r, nil
}

// ReadRecord gives what holds for the cluster by a main database; nil if that does not say.
func ReadRecord(ctx context.Context, connString string) (*bootstrap.Record, error) {
	conn, err := connect(ctx, connString, "tutti.cluster")
	if conn == nil {
		return nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return readRecord(ctx, conn)
}

// CarryRecord carries out what a definition does to what holds for the cluster, at its ordinal, and notes the progress
// up to last. It gives what holds then, nil if it is refused. An error is this member's alone.
func CarryRecord(ctx context.Context, o Options, last, ordinal uint64, d session.Definition) (*bootstrap.Record,
	session.Result, error) {
	_, super, err := roleOf(ctx, o.Conn, d)
	if err != nil {
		return nil, session.Result{}, err
	}
	was, err := readRecord(ctx, o.Conn)
	if err != nil {
		return nil, session.Result{}, err
	}
	next, refused := recorded(was, d.Record, super)
	if refused != nil {
		return nil, session.Result{Err: refused}, o.NoteProgress(ctx, last)
	}
	next.Changed = ordinal
	const sql = "INSERT INTO tutti.cluster AS c (level, min_copies, expel_after, changed) VALUES ($1, $2, $3, $4) ON " +
		"CONFLICT (one) DO UPDATE SET level = excluded.level, min_copies = excluded.min_copies, expel_after = " +
		"excluded.expel_after, changed = excluded.changed"
	if err := o.Note(ctx, last, sql, next.Level, next.MinCopies, next.ExpelAfter, next.Changed); err != nil {
		return nil, session.Result{}, err
	}
	return next, session.Result{Tag: "CALL"}, nil
}

// recorded is what holds behind a change, or why it is refused (MB4). Nil was: of a cluster that began before there was
// a record.
func recorded(was *bootstrap.Record, c semantics.Record, super bool) (*bootstrap.Record, *wire.SQLError) {
	if !super {
		return nil, wire.Errorf(wire.CodeInsufficientPrivilege, "permission denied to change what holds for the "+
			"whole cluster").WithHint("Only superusers do that.")
	}
	next := bootstrap.Record{Level: bootstrap.Membership}
	if was != nil {
		next = *was
	}
	switch {
	case c.Does == semantics.FinishesUpgrade:
		next.Level = max(next.Level, c.Level)
		if next.MinCopies == 0 {
			next.MinCopies, next.ExpelAfter = c.MinCopies, c.ExpelAfter
		}
		return &next, nil
	case next.Level < bootstrap.Roles:
		return nil, ErrNotFinished()
	case c.Does == semantics.SetsMinCopies:
		next.MinCopies = c.MinCopies
	case c.Does == semantics.SetsExpelAfter:
		next.ExpelAfter = c.ExpelAfter
	}
	if err := config.Votes(next.MinCopies, next.ExpelAfter); err != nil {
		return nil, wire.Errorf(wire.CodeInvalidParameterValue, "%s", err.Error())
	}
	if d, err := time.ParseDuration(next.ExpelAfter); err == nil {
		next.ExpelAfter = d.String()
	}
	return &next, nil
}

// ErrNotFinished is what is told who uses something for which the cluster's level is too low.
func ErrNotFinished() *wire.SQLError {
	return wire.Errorf(wire.CodeObjectNotInState, "not before the upgrade of the cluster is finished").
		WithHint("When all nodes run this release, run \"tutti upgrade finish\".")
}
