package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tuttidb/tutti/internal/apply"
	"github.com/tuttidb/tutti/internal/collect"
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/writeset"
)

// applySteps executes a transaction that changed the schema: its definitions, with the origin's role
// and settings, and the rows between them, in one transaction with the progress.
func (a *applier) applySteps(ctx context.Context, last uint64, t engine.Task) error {
	a.begun.Store(max(last, a.begun.Load()))
	for {
		err := a.attemptSteps(ctx, last, t)
		if err == nil {
			return a.prepare(ctx)
		}
		if !transient(err) {
			return refusedStep(&t, err)
		}
		if !sleep(ctx, 5*time.Millisecond) {
			return ctx.Err()
		}
	}
}

// refusedStep words what PostgreSQL refuses here and has carried out at the origin.
func refusedStep(t *engine.Task, err error) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && !environmental(pg.Code) {
		return &FatalError{fmt.Errorf("the schema changes of transaction %s cannot be carried out here: %w; this database differs from that of member %d: restore this member from another",
			t.Item.ID, err, t.Item.ID.Member)}
	}
	return err
}

func (a *applier) attemptSteps(ctx context.Context, last uint64, t engine.Task) (err error) {
	tx, err := a.pgx.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, tx.Rollback(ctx))
			if !a.rehearses {
				err = errors.Join(err, a.describe(ctx), a.prepare(ctx))
			}
		}
	}()
	changed := false
	follow := func() error {
		if !changed {
			return nil
		}
		changed = false
		if _, err := tx.Exec(ctx, applierAgain); err != nil {
			return err
		}
		if err := a.follow(ctx, tx); err != nil {
			return err
		}
		return a.prepare(ctx) // what is prepared may name types that are gone
	}
	for _, s := range t.Writeset.Steps {
		if s.Rows == nil {
			if err := a.stepDefinition(ctx, s.Definition); err != nil {
				return err
			}
			changed = true
			continue
		}
		if err := follow(); err != nil {
			return err
		}
		if err := a.stepRows(ctx, s.Rows); err != nil {
			return err
		}
	}
	if err := follow(); err != nil {
		return err
	}
	if a.rehearses {
		return errRehearsed
	}
	lsn, err := a.finishPipeline(a.conn.StartPipeline(ctx), 0, last, []engine.Task{t}, nil)
	if err != nil {
		return err
	}
	return a.commit(ctx, last, lsn)
}

// applierAgain gives the applier its own settings back inside a transaction.
const applierAgain = "RESET ROLE; RESET ALL; SET LOCAL session_replication_role = replica; SET LOCAL search_path = pg_catalog; SET LOCAL client_min_messages = warning"

func (a *applier) stepDefinition(ctx context.Context, step []byte) error {
	d, err := collect.Definition(step)
	if err != nil {
		return &FatalError{err}
	}
	if a.rehearses && strings.HasPrefix(strings.ToUpper(strings.TrimSpace(d.SQL)), "SELECT") {
		return nil // setval knows no rollback
	}
	if _, err := a.conn.Exec(ctx, "RESET ROLE").ReadAll(); err != nil {
		return err
	}
	if err := a.assume(ctx, d); err != nil {
		return err
	}
	if _, err = a.runAs(ctx, d); err != nil {
		return fmt.Errorf("%s: %w", strings.Join(strings.Fields(d.SQL), " "), err)
	}
	return nil
}

func (a *applier) stepRows(ctx context.Context, rows *writeset.Writeset) error {
	unchecked := false
	for form := apply.InPlace; ; {
		ops, err := apply.Plan([]*writeset.Writeset{rows}, a.tables.Apply, form)
		if err != nil {
			return &FatalError{err}
		}
		if unchecked {
			ops = apply.WithoutChecks(ops)
		}
		if err := a.prepareOps(ctx, ops); err != nil {
			return err
		}
		p := a.conn.StartPipeline(ctx)
		p.SendQueryPrepared(applySave, nil, nil, nil)
		_, err = a.finishPipeline(p, 1, 0, nil, ops)
		end := applyKeep
		switch {
		case unfit(err):
			end, form = applyUndo, form.Next(1)
		case !unchecked && failsCheck(err):
			end, unchecked = applyUndo, true
		case err != nil:
			return err
		}
		if e := a.conn.ExecPrepared(ctx, end, nil, nil, nil).Read().Err; e != nil || err == nil {
			return e
		}
	}
}

// changed reads the tables anew once a transaction of this member has changed the schema.
func (a *applier) changed(ctx context.Context) error {
	if err := a.describe(ctx); err != nil {
		return err
	}
	return a.prepare(ctx)
}
