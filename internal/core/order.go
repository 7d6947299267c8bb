package core

import (
	"context"
	"time"

	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/process"
)

// resubmitAfter is when something is submitted again for which the engine had too much to order.
const resubmitAfter = 10 * time.Millisecond

// Order submits what must not be lost because too much is under way at the moment. False if ctx or the core ends.
func (c *Core) Order(ctx context.Context, s engine.Submission) bool {
	for {
		taken := false
		if !c.Call(func(e *engine.Engine) { taken = e.Submit(s) }) {
			return false
		}
		if taken {
			return true
		}
		if !process.Sleep(ctx, resubmitAfter) {
			return false
		}
	}
}
