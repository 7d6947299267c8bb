package replay

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/tuttidb/tutti/internal/apply"
)

// operate executes one operation by itself.
func (a *Applier) operate(ctx context.Context, o *apply.Operation) error {
	if o.Copy != nil {
		tag, err := a.Conn.CopyFrom(ctx, bytes.NewReader(o.Copy), o.SQL)
		if err != nil {
			return err
		}
		return misfit(o, tag.RowsAffected())
	}
	if err := a.prepareOps(ctx, []apply.Operation{*o}); err != nil {
		return err
	}
	r := a.Conn.ExecPrepared(ctx, a.prepared[o.SQL], o.Args, []int16{int16(o.Format)}, nil).Read()
	if r.Err != nil {
		return r.Err
	}
	return misfit(o, r.CommandTag.RowsAffected())
}

// misfit: what an operation finds may be due to a predecessor that is not applied yet, or its transaction will lose.
func misfit(o *apply.Operation, affected int64) error {
	if o.Check(affected) != nil {
		return fmt.Errorf("%w: there are %d of %d in table %s", errMisfit, affected, o.Rows, o.Table)
	}
	return nil
}

var (
	errGivesWay = errors.New("it gave way")
	errMisfit   = errors.New("its rows do not fit")
	errUnable   = errors.New("not all that it does can be done ahead")
)
