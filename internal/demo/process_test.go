package demo

import (
	"path/filepath"
	"testing"
)

// TestHopeless: a child that ends because of its configuration is not to be started again, any other is.
func TestHopeless(t *testing.T) {
	for code, want := range map[string]bool{"0": false, "1": false, "78": true, "130": false} {
		p := NewProcess("child", filepath.Join(t.TempDir(), "log"), "/bin/sh", "-c", "exit "+code)
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		p.Wait()
		if got := p.hopeless(); got != want {
			t.Errorf("exit %s: %v", code, got)
		}
	}
}
