package config

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestMayBegin: a cluster of one begins once, where somebody has said so; one of several needs no such word.
func TestMayBegin(t *testing.T) {
	c := valid()
	c.DataDir = filepath.Join(t.TempDir(), "data")
	c.Members = append(c.Members[:1:1], Member{Member: 9, Name: "other", Address: "h:1"})
	if err := c.MayBegin(); err != nil {
		t.Errorf("one of several: %v", err)
	}
	c.Members = c.Members[:1]
	if err := c.MayBegin(); err == nil || !strings.Contains(err.Error(), "make the file "+c.DataDir) {
		t.Errorf("alone: %v", err)
	}
	if err := MarkAlone(c.DataDir); err != nil {
		t.Fatal(err)
	}
	if err := c.MayBegin(); err != nil {
		t.Errorf("alone, and told to: %v", err)
	}
	c.Begun()
	c.Begun()
	if c.MayBegin() == nil {
		t.Error("it begins a second time")
	}
}
