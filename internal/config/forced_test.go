package config

import (
	"path/filepath"
	"testing"
)

// TestForced: the mark is there until that is over.
func TestForced(t *testing.T) {
	c := valid()
	c.DataDir = filepath.Join(t.TempDir(), "missing")
	if err := c.MarkForced(); err == nil || c.Forced() {
		t.Errorf("without a directory: %v", err)
	}
	c.DataDir = t.TempDir()
	for range 2 {
		if err := c.MarkForced(); err != nil || !c.Forced() {
			t.Fatalf("%v, %v", err, c.Forced())
		}
	}
	if err := c.ForcedOver(); err != nil || c.Forced() {
		t.Errorf("%v, %v", err, c.Forced())
	}
}
