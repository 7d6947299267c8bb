package replay

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tuttidb/tutti/internal/apply"
	"github.com/tuttidb/tutti/internal/capture"
	"github.com/tuttidb/tutti/internal/collect"
	"github.com/tuttidb/tutti/internal/database/catalog"
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/failure"
	"github.com/tuttidb/tutti/internal/process"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/writeset"
)

// ApplySteps executes a transaction that changed the schema: its definitions, with the origin's role
// and settings, and the rows between them, in one transaction with the progress.
func (a *Applier) ApplySteps(ctx context.Context, last uint64, t engine.Task) (err error) {
	defer func() { a.yields = false }()
	for a.Job.again() {
		err = a.AttemptSteps(ctx, last, t)
		if err == nil {
			return a.Forget(ctx)
		}
		if a.clears(err) {
			continue
		}
		if !failure.Transient(err) {
			return refusedStep(&t, err)
		}
		if !process.Sleep(ctx, 5*time.Millisecond) {
			return ctx.Err()
		}
	}
	return err
}

// refusedStep words what PostgreSQL refuses here and has carried out at the origin.
func refusedStep(t *engine.Task, err error) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && !failure.Environmental(pg) {
		return &failure.Fatal{Err: fmt.Errorf("the schema changes of transaction %s cannot be carried out here: %w; "+
			"this database differs from that of member %d: restore this member from another",
			t.Item.ID, err, t.Item.ID.Member)}
	}
	return err
}

func (a *Applier) AttemptSteps(ctx context.Context, last uint64, t engine.Task) (err error) {
	tx, err := a.Pgx.BeginTx(ctx, a.level())
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, tx.Rollback(ctx))
			if !a.rehearses {
				err = errors.Join(err, a.describe(ctx), a.Forget(ctx))
			}
		}
	}()
	changed := false
	follow := func() error {
		if !changed {
			return nil
		}
		changed = false
		if err := a.follow(ctx, ownAgain...); err != nil {
			return err
		}
		return a.Forget(ctx) // what is prepared may name types that are gone
	}
	for _, s := range t.Writeset.Steps {
		if s.Rows == nil {
			table, err := collect.Emptied(s.Definition)
			if err != nil {
				return &failure.Fatal{Err: err}
			}
			if table != "" {
				if err := follow(); err != nil {
					return err
				}
				if err := a.asReplica(ctx); err != nil {
					return err
				}
				if _, err := a.Conn.Exec(ctx, "DELETE FROM ONLY "+table).ReadAll(); err != nil {
					return err
				}
				continue
			}
			if err := a.stepDefinition(ctx, t.Item.ID.Member, s.Definition); err != nil {
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
	if a.rehearses {
		return errRehearsed
	}
	if err := follow(); err != nil {
		return err
	}
	return a.End(ctx, last, []engine.Task{t})
}

// again gives the applier its own settings back inside a transaction; what was noted of the kinds of
// definitions is kept.
func (a *Applier) again(ctx context.Context) error {
	_, err := a.Conn.Exec(ctx, strings.Join(ownAgain, ";")).ReadAll()
	return err
}

var ownAgain = []string{"RESET ROLE", capture.OwnSettings}

// asReplica lets no triggers of users fire in the rest of the transaction, or until the next definition.
func (a *Applier) asReplica(ctx context.Context) error {
	_, err := a.Conn.Exec(ctx, "SET LOCAL session_replication_role = replica").ReadAll()
	return err
}

func (a *Applier) stepDefinition(ctx context.Context, origin uint32, step []byte) error {
	d, err := collect.Definition(step)
	if err != nil {
		return &failure.Fatal{Err: err}
	}
	if isQuery(d.SQL) {
		if a.rehearses {
			return nil // setval knows no rollback
		}
		return a.stepQuery(ctx, origin, d)
	}
	// Its origin has looked at it, where it may have found temporary objects of the session's.
	more := [][2]string{{"check_function_bodies", "off"}}
	if firstWord(d.SQL) == "TRUNCATE" { // what its triggers wrote there comes as rows
		more = append(more, [2]string{"session_replication_role", "replica"})
	}
	before := a.assuming(origin, d, more...)
	if _, err = a.runAs(ctx, before, d); err != nil {
		return fmt.Errorf("%s: %w", strings.Join(strings.Fields(d.SQL), " "), err)
	}
	return nil
}

// stepQuery carries out a setval. Nobody could try it before it was ordered, and what it calls may fail
// here on purpose; then the sequence stays as it is, which makes no two values equal.
func (a *Applier) stepQuery(ctx context.Context, origin uint32, d session.Definition) error {
	if err := a.Conn.ExecPrepared(ctx, applySave, nil, nil, nil).Read().Err; err != nil {
		return err
	}
	_, err := a.runAs(ctx, a.assuming(origin, d), d)
	end := applyKeep
	var pg *pgconn.PgError
	switch {
	case errors.As(err, &pg) && !failure.Environmental(pg):
		a.warn("a setval failed here and is left out", "sql", d.SQL, "error", err)
		end = applyUndo
	case err != nil:
		return err
	}
	return a.Conn.ExecPrepared(ctx, end, nil, nil, nil).Read().Err
}

// isQuery reports whether a noted text is a query, and no definition: that is a setval.
func isQuery(sql string) bool {
	word := firstWord(sql)
	return word == "SELECT" || word == "WITH" || word == "VALUES"
}

// firstWord is the word with which a text begins, in capital letters.
func firstWord(sql string) string {
	for {
		sql = strings.TrimLeft(sql, " \t\r\n\f\v(")
		switch {
		case strings.HasPrefix(sql, "--"):
			_, sql, _ = strings.Cut(sql, "\n")
		case strings.HasPrefix(sql, "/*"):
			sql = afterComment(sql)
		default:
			end := strings.IndexFunc(sql, func(c rune) bool { return !unicode.IsLetter(c) })
			if end < 0 {
				end = len(sql)
			}
			return strings.ToUpper(sql[:end])
		}
	}
}

// afterComment is what follows a comment, which may hold others.
func afterComment(sql string) string {
	depth := 0
	for i := 0; i+1 < len(sql); i++ {
		switch sql[i : i+2] {
		case "/*":
			depth++
			i++
		case "*/":
			depth--
			i++
		}
		if depth == 0 {
			return sql[i+1:]
		}
	}
	return ""
}

func (a *Applier) stepRows(ctx context.Context, rows *writeset.Writeset) error {
	if err := a.asReplica(ctx); err != nil {
		return err
	}
	unchecked := false
	for form := apply.InPlace; ; {
		ops, err := apply.Plan([]*writeset.Writeset{rows}, a.Tables.Apply, form)
		if err != nil {
			return &failure.Fatal{Err: err}
		}
		if unchecked {
			ops = apply.WithoutChecks(ops)
		}
		if err := a.prepareOps(ctx, ops); err != nil {
			return err
		}
		p := a.Conn.StartPipeline(ctx)
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
		if e := a.Conn.ExecPrepared(ctx, end, nil, nil, nil).Read().Err; e != nil || err == nil {
			return e
		}
	}
}

// Changed reads the tables anew once a transaction of this member has changed the schema: those that it
// names, if others cannot have changed.
func (a *Applier) Changed(ctx context.Context, ws *writeset.Writeset) error {
	if all, err := capture.Redescribes(ws); err != nil {
		return err
	} else if all {
		return errors.Join(a.describe(ctx), a.Forget(ctx))
	}
	tx, err := a.Pgx.Begin(ctx)
	if err != nil {
		return fmt.Errorf("replay: applier: %w", err)
	}
	names := make([][2]string, len(ws.Tables))
	for i, t := range ws.Tables {
		names[i] = [2]string{t.Schema, t.Name}
	}
	noted, err := capture.NoteTags(ws)
	if err == nil {
		a.Tables, err = catalog.DescribeSome(ctx, tx, a.Tables, names, noted...)
	}
	return errors.Join(err, tx.Rollback(ctx), a.Forget(ctx))
}
