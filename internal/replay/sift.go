package replay

import (
	"context"
	"errors"

	"github.com/tuttidb/tutti/internal/apply"
	"github.com/tuttidb/tutti/internal/writeset"
)

// voidError says that a blind transaction of several rows has missed one, so that it is not to be carried out.
type voidError struct{}

func (voidError) Error() string { return "replay: apply: a row of a blind transaction is not there" }

// several reports whether a blind transaction has several rows: all of them are changed, or none.
func several(w *writeset.Writeset) bool { return w.Blind() && len(w.Rows) > 1 }

// sift finds out which blind transactions, of those in order, are not to be carried out, because one of their rows is
// not there at their place, or cannot hold what is added; and which rows these are. All members find the same. It
// executes one transaction after the other, and takes everything back: rows that such a transaction must not change are
// in the way of those behind it otherwise, so that what they say when all are executed together means nothing.
func (a *Applier) sift(ctx context.Context, sets []*writeset.Writeset,
	unchecked bool) (void map[*writeset.Writeset]bool, missed []*writeset.Row, err error) {
	if err := a.Conn.ExecPrepared(ctx, ApplyBegin, nil, nil, nil).Read().Err; err != nil {
		return nil, nil, err
	}
	void = map[*writeset.Writeset]bool{}
	for i := range sets {
		if err = a.SiftOne(ctx, sets[i:i+1], unchecked); errors.Is(err, voidError{}) {
			void[sets[i]] = true
			for row := range a.Missed { // order-free: a set
				missed = append(missed, row)
			}
			err = a.Conn.ExecPrepared(ctx, applyUndo, nil, nil, nil).Read().Err
		}
		if err != nil {
			break
		}
	}
	return void, missed, errors.Join(err, a.Conn.ExecPrepared(ctx, ApplyRollback, nil, nil, nil).Read().Err)
}

// SiftOne executes one transaction in the open one, behind a savepoint.
func (a *Applier) SiftOne(ctx context.Context, set []*writeset.Writeset, unchecked bool) error {
	for form := apply.InPlace; ; form = form.Next(1) {
		ops, err := apply.Plan(set, a.Tables.Apply, form)
		if err != nil {
			return err
		}
		if unchecked {
			ops = apply.WithoutChecks(ops)
		}
		if err := a.prepareOps(ctx, ops); err != nil {
			return err
		}
		a.Missed = nil
		p := a.Conn.StartPipeline(ctx)
		p.SendQueryPrepared(applySave, nil, nil, nil)
		_, err = a.finishPipeline(p, 1, 0, nil, ops)
		switch {
		case unfit(err):
			if err := a.Conn.ExecPrepared(ctx, applyUndo, nil, nil, nil).Read().Err; err != nil {
				return err
			}
			continue
		case err == nil && several(set[0]) && len(a.Missed) > 0:
			return voidError{}
		}
		return err
	}
}

// voids reports whether a blind transaction of several rows has missed one.
func (a *Applier) voids(sets []*writeset.Writeset) bool {
	if len(a.Missed) == 0 {
		return false
	}
	for _, w := range sets {
		for i := range w.Rows {
			if several(w) && a.Missed[&w.Rows[i]] {
				return true
			}
		}
	}
	return false
}
