package node

import (
	"context"
	"fmt"
	"strings"

	"github.com/tuttidb/tutti/internal/bootstrap"
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/failure"
	"github.com/tuttidb/tutti/internal/membership"
	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/version"
	"github.com/tuttidb/tutti/internal/wire"
)

// readRecord takes what holds for the cluster from the local database. A node whose build or file does not go with that
// does not start; one that has served goes by the record, whatever its file says.
func (t *tenure) readRecord(ctx context.Context) error {
	c := t.node.config
	r, err := membership.ReadRecord(ctx, t.connString(c.Database))
	if err != nil {
		return err
	}
	if err := bootstrap.Surpassed(bootstrap.Level, r, "this node, "+c.Self().Name+","); err != nil {
		return &failure.Newer{Err: err}
	}
	c.Recorded(r)
	if err := c.Differs(); err != nil && !t.node.served {
		return &failure.Config{Err: err}
	}
	return nil
}

// mayChangeRecord refuses, where a statement comes from, what it may not do to what holds for the cluster. What others
// have said is asked here alone: who carries it out has not heard the same.
func (t *tenure) mayChangeRecord(r semantics.Record) *wire.SQLError {
	switch {
	case r.Does == semantics.NoRecord:
	case r.Does != semantics.FinishesUpgrade:
		if !t.standing.Understand(bootstrap.Roles) {
			return membership.ErrNotFinished()
		}
	default:
		var lack []string
		for _, m := range t.standing.Lacking(bootstrap.Level) {
			lack = append(lack, t.node.config.Name(m))
		}
		if len(lack) > 0 {
			return wire.Errorf(wire.CodeObjectNotInState, "the upgrade to level %d cannot be finished: no release that "+
				"understands it has been seen at %s", bootstrap.Level, strings.Join(lack, ", ")).
				WithHint("Install this release there, and start the node; one that is gone for good can be removed.")
		}
	}
	return nil
}

// record adds to what a statement does to it what this node knows.
func (t *tenure) record(r semantics.Record) semantics.Record {
	if r.Does == semantics.FinishesUpgrade {
		c := t.node.config
		r.Level, r.MinCopies, r.ExpelAfter = bootstrap.Level, c.Copies(), c.Expel().String()
	}
	return r
}

// changeRecord carries out what a definition does to what holds for the cluster.
func (l *life) changeRecord(ctx context.Context, last uint64, t engine.Task, d session.Definition) (session.Result,
	error) {
	l.db.applier.Begun.Store(last)
	will := &bootstrap.Record{Level: d.Record.Level}
	if err := bootstrap.Surpassed(bootstrap.Level, will, "this node, "+l.config.Self().Name+","); err != nil {
		return session.Result{}, &failure.Newer{Err: err}
	}
	r, result, err := membership.CarryRecord(ctx, membership.Options{Config: l.config, Conn: l.db.applier.Pgx,
		Note: l.db.applier.Note, NoteProgress: l.db.applier.NoteProgress}, last, t.Ordinal, d)
	if r == nil {
		return result, err
	}
	l.config.Recorded(r)
	l.log.Info("what holds for the cluster has changed", "level", r.Level, "min_copies", r.MinCopies, "expel_after",
		r.ExpelAfter, "ordinal", r.Changed)
	if err := l.config.Differs(); err != nil {
		l.log.Warn("this node goes by what holds for the cluster, and will not start again with its file", "error", err)
	}
	return result, err
}

// upgradeColumns are those of SHOW tutti.upgrade.
var upgradeColumns = []string{"member", "version", "level", "cluster"}

// upgrade says what the members run and understand, and what the cluster's level is.
func upgrade(l *life) session.Result {
	out := session.Result{Tag: "SHOW", Columns: upgradeColumns}
	levels := l.tenure.standing.Levels()
	for _, m := range l.config.All() {
		runs, level := "", ""
		if s, alive := l.others.peers.Of(m.Member); alive {
			runs = s.Version
		}
		if m.Member == l.config.Member {
			runs = version.String()
		}
		if n, said := levels[m.Member]; said {
			level = fmt.Sprint(n)
		}
		out.Rows = append(out.Rows, []string{m.Name, runs, level, fmt.Sprint(l.config.ClusterLevel())})
	}
	return out
}
