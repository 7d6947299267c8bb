package node

import (
	"testing"
	"time"
)

// TestLoneliness: a client waits for a leader for a while, counted anew once there is one.
func TestLoneliness(t *testing.T) {
	var alone loneliness
	if alone.lasts(true) {
		t.Error("it lasts too long from the first moment on")
	}
	alone.since = alone.since.Add(-2 * leaderlessMax)
	if !alone.lasts(true) {
		t.Error("it never lasts too long")
	}
	if alone.lasts(false) || alone.lasts(true) || time.Since(alone.since) > leaderlessMax {
		t.Error("it is not counted anew once there was a leader")
	}
}
