package catalog

import (
	"context"

	"github.com/tuttidb/tutti/internal/writeset"
)

func AlignSequences(ctx context.Context, q Querier, member, step int) error { return nil }
func JumpSequences(ctx context.Context, q Querier, gap int64) error         { return nil }
func (t *Tables) KeyText(w writeset.Table, image []byte) (string, string, bool) {
	return "", "", false
}
