package chaos

import (
	"context"
	"os"
	"path/filepath"
	"time"
)

const pulseEvery = 20 * time.Millisecond

// pulse writes and syncs a little file again and again, and returns when each was done: how
// long the machine itself, its processors or its disk, stood still. Gaps of the cluster are
// to be read beside it.
func pulse(ctx context.Context, dir string, began time.Time) (beats []int64, err error) {
	f, err := os.Create(filepath.Join(dir, "pulse"))
	if err != nil {
		return nil, err
	}
	defer f.Close() // of no use any more
	for sleep(ctx, pulseEvery) {
		if _, err := f.WriteAt([]byte("pulse"), 0); err != nil {
			return beats, err
		}
		if err := f.Sync(); err != nil {
			return beats, err
		}
		beats = append(beats, int64(time.Since(began)))
	}
	return beats, nil
}
