package process

import (
	"context"
	"time"
)

// began is the beginning of this process, from which its common moments are counted.
var began = time.Now()

// Beats is how many intervals of this length have passed since the process began.
func Beats(interval time.Duration) int64 { return int64(time.Since(began) / interval) }

// ToBeat is how long it is until the end of the interval under way. What a process does again and again it does at such
// moments: intervals that are multiples of each other end together, and one waking of a thread serves all of them.
func ToBeat(interval time.Duration) time.Duration { return interval - time.Since(began)%interval }

// Rest waits for the end of the interval under way, unless ctx ends before. It reports whether it has.
func Rest(ctx context.Context, interval time.Duration) bool { return Sleep(ctx, ToBeat(interval)) }
