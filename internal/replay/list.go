package replay

import (
	"context"
	"errors"
)

// Note changes the list of databases together with the progress.
func (a *Applier) Note(ctx context.Context, last uint64, sql string, args ...any) (err error) {
	tx, err := a.Pgx.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, tx.Rollback(ctx))
		}
	}()
	if _, err := tx.Exec(ctx, sql, args...); err != nil {
		return err
	}
	lsn, err := a.finishPipeline(a.Conn.StartPipeline(ctx), 0, last, nil, nil)
	if err != nil {
		return err
	}
	return a.commit(ctx, last, lsn)
}
