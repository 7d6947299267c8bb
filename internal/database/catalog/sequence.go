package catalog

import (
	"context"
	"errors"
	"fmt"
	"math"
)

// DefaultStep is the usual number of classes that the chunks of a sequence's values are dealt out to: the most
// members a cluster can have.
const DefaultStep = 16

// StartSequences makes every user sequence give values of this member alone (D2, D3), in q's open transaction,
// when a node starts. They go on gap values after where they are: after a crash of the database, values whose use was
// lost with it (asynchronous commit loses nextval too) are not given again. A sequence that cannot go so far is
// exhausted. Afterwards every definition keeps them so by itself, see capture. In a database that is a copy of another
// member's they leave out a chunk for each of the member's copies, this one included: each database that it has had
// may have given values of one.
func StartSequences(ctx context.Context, q Querier, member, step int, gap int64, copies int) error {
	if step < 1 || step > math.MaxInt32 || member < 1 || member > step {
		return fmt.Errorf("catalog: sequence step %d of member %d is out of range", step, member)
	}
	if gap < 0 {
		return errors.New("catalog: sequences cannot go backwards")
	}
	return within(ctx, q, func(back string) error {
		if _, err := q.Exec(ctx, "SELECT tutti.start_sequences($1, $2, $3, $4)", int32(member), int32(step),
			gap, int32(copies)); err != nil {
			return fmt.Errorf("catalog: starting sequences: %w", err)
		}
		if _, err := q.Exec(ctx, back); err != nil {
			return fmt.Errorf("catalog: %w", err)
		}
		return nil
	})
}
