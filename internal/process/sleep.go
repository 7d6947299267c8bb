package process

import (
	"context"
	"time"
)

// Sleep waits, unless ctx ends before. It reports whether it has.
func Sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
