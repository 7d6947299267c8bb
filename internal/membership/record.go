package membership

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tuttidb/tutti/internal/bootstrap"
	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/failure"
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

// TakeRecord has a configuration go by what holds for the cluster by its main database. A node whose build, or at its
// start whose file, does not go with that must end.
func TakeRecord(ctx context.Context, connString string, c *config.Config, starts bool) error {
	conn, err := connect(ctx, connString, "tutti.cluster")
	if conn == nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	r, err := readRecord(ctx, conn)
	if err != nil {
		return err
	}
	if err := bootstrap.Surpassed(bootstrap.Level, r, "this node, "+c.Self().Name+","); err != nil {
		return &failure.Newer{Err: err}
	}
	c.Recorded(r)
	if err := c.Differs(); err != nil && starts {
		return &failure.Config{Err: err}
	}
	return nil
}

// Said is what is known of what the members understand, and have in their files (standing).
type Said interface {
	Understand(level uint32) bool
	Lacking(level uint32) []uint32
	Unlike() error
}

// MayRecord refuses, where a statement comes from, what it may not do to what holds for the cluster. What others have
// said is asked here alone: who carries it out has not heard the same.
func MayRecord(c *config.Config, of Said, r semantics.Record) *wire.SQLError {
	switch {
	case r.Does == semantics.NoRecord:
	case r.Does != semantics.FinishesUpgrade:
		if !of.Understand(bootstrap.Roles) {
			return ErrNotFinished()
		}
	default:
		var lack []string
		for _, m := range of.Lacking(bootstrap.Level) {
			lack = append(lack, c.Name(m))
		}
		if len(lack) > 0 {
			return wire.Errorf(wire.CodeObjectNotInState, "the upgrade to level %d cannot be finished: no release "+
				"that understands it has been seen at %s", bootstrap.Level, strings.Join(lack, ", ")).
				WithHint("Install this release there, and start the node; one that is gone for good can be removed.")
		}
		if err := of.Unlike(); err != nil {
			return wire.Errorf(wire.CodeObjectNotInState, "the upgrade cannot be finished: %s", err.Error()).
				WithHint("Change the configuration of one, and start it again.")
		}
	}
	return nil
}

// Complete adds to what a statement does to what holds for the cluster what its node knows.
func Complete(c *config.Config, r semantics.Record) semantics.Record {
	if r.Does == semantics.FinishesUpgrade {
		r.Level, r.MinCopies, r.ExpelAfter = bootstrap.Level, c.Copies(), c.Expel().String()
	}
	return r
}

// CarryRecord carries out what a definition does to what holds for the cluster, at its ordinal, notes the progress up
// to last, and has the configuration go by it. An error is this member's alone.
func CarryRecord(ctx context.Context, o Options, log *slog.Logger, last, ordinal uint64, d session.Definition) (
	session.Result, error) {
	will := &bootstrap.Record{Level: d.Record.Level}
	if err := bootstrap.Surpassed(bootstrap.Level, will, "this node, "+o.Config.Self().Name+","); err != nil {
		return session.Result{}, &failure.Newer{Err: err}
	}
	_, super, err := roleOf(ctx, o.Conn, d)
	if err != nil {
		return session.Result{}, err
	}
	was, err := readRecord(ctx, o.Conn)
	if err != nil {
		return session.Result{}, err
	}
	next, refused := recorded(was, d.Record, super)
	if refused != nil {
		return session.Result{Err: refused}, o.NoteProgress(ctx, last)
	}
	next.Changed = ordinal
	const sql = "INSERT INTO tutti.cluster AS c (level, min_copies, expel_after, changed) VALUES ($1, $2, $3, $4) ON " +
		"CONFLICT (one) DO UPDATE SET level = excluded.level, min_copies = excluded.min_copies, expel_after = " +
		"excluded.expel_after, changed = excluded.changed"
	if err := o.Note(ctx, last, sql, next.Level, next.MinCopies, next.ExpelAfter, next.Changed); err != nil {
		return session.Result{}, err
	}
	before := o.Config.ClusterLevel()
	if o.Config.Recorded(next); o.Config.ClusterLevel() > before {
		o.Raised()
	}
	log.Info("what holds for the cluster has changed", "level", next.Level, "min_copies", next.MinCopies, "expel_after",
		next.ExpelAfter, "ordinal", ordinal)
	if err := o.Config.Differs(); err != nil {
		log.Warn("this node goes by what holds for the cluster, and will not start again with its file", "error", err)
	}
	return session.Result{Tag: "CALL"}, nil
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

// LevelColumns are those of Levels.
var LevelColumns = []string{"member", "version", "level", "cluster"}

// Levels says what the members run and understand, and what the cluster's level is.
func Levels(c *config.Config, levels map[uint32]uint32, runs func(member uint32) string) session.Result {
	out := session.Result{Tag: "SHOW", Columns: LevelColumns}
	for _, m := range slices.Concat(c.All(), c.Witnesses()) {
		level := ""
		if n, said := levels[m.Member]; said {
			level = fmt.Sprint(n)
		}
		out.Rows = append(out.Rows, []string{m.Name, runs(m.Member), level, fmt.Sprint(c.ClusterLevel())})
	}
	return out
}
