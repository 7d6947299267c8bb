package node

import (
	"context"
	"time"

	"github.com/tuttidb/tutti/internal/capture"
	"github.com/tuttidb/tutti/internal/database/link"
)

// sequences is session.Sequences.
type sequences struct{ l *life }

// Spent goes on to the next chunk of a sequence's values. What it writes is on disk when it returns: values of the
// new chunk that are forgotten in a crash must not be given again from its beginning.
func (x sequences) Spent(message string) (moved bool, bound string) {
	name, reached, ok := capture.Spent(message)
	if !ok {
		return false, ""
	}
	ctx, cancel := context.WithTimeout(context.Background(), advanceTimeout)
	defer cancel()
	answer, err := advance(ctx, x.l.db.applier.ConnString, name, reached)
	if err != nil { // a definition or setval under way, mostly: the statement would wait for it
		x.l.log.Warn("a sequence cannot go on to its next values now", "sequence", name, "error", err)
		return true, ""
	}
	return capture.Advanced(answer)
}

// advanceTimeout is how long the end of a chunk waits for definitions and setvals of the sequence.
const advanceTimeout = 2 * time.Second

func advance(ctx context.Context, connString, name string, reached int64) ([]byte, error) {
	conn, err := link.Connect(ctx, connString, "tutti sequences", map[string]string{"synchronous_commit": "on"})
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // nothing is pending
	sql, values := capture.AdvanceSQL(name, reached)
	r := conn.ExecParams(ctx, sql, values, nil, nil, nil).Read()
	if r.Err != nil {
		return nil, r.Err
	}
	return r.Rows[0][0], nil
}
