package demo

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDirectory (D3): an ephemeral directory is the given one, goes away at the end, and is refused if something is in
// it.
func TestDirectory(t *testing.T) {
	base := t.TempDir()
	fresh := filepath.Join(base, "a", "fresh")
	dir, remove, err := directory(Options{Dir: fresh, Ephemeral: true})
	if err != nil || dir != fresh {
		t.Fatalf("%s, %v: --dir is not used", dir, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := directory(Options{Dir: fresh, Ephemeral: true}); err == nil ||
		!strings.Contains(err.Error(), "is not empty (file)") {
		t.Errorf("a directory that is not empty would be removed: %v", err)
	}
	if err := remove(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(fresh); !os.IsNotExist(err) {
		t.Errorf("%s is left: %v", fresh, err)
	}
	if dir, remove, err = directory(Options{Ephemeral: true}); err != nil || !strings.HasPrefix(dir, os.TempDir()) ||
		remove() != nil {
		t.Errorf("%s, %v", dir, err)
	}
	if dir, remove, err = directory(Options{Dir: fresh}); err != nil || dir != fresh || remove() != nil {
		t.Errorf("%s, %v", dir, err)
	}
	if _, err := os.Stat(fresh); err != nil {
		t.Errorf("a directory that is kept is gone: %v", err)
	}
}

// TestSecondDemo (D2): who comes second is refused before it changes anything, and removes nothing.
func TestSecondDemo(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "demo")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	l, err := lockDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "node1.toml"), []byte("the first's"), 0o600); err != nil {
		t.Fatal(err)
	}
	err = Run(context.Background(), Options{Nodes: 1, Dir: dir, BasePort: 1}, io.Discard)
	if !errors.Is(err, errInUse) || !strings.Contains(err.Error(), "another demo runs in "+dir+" (process ") {
		t.Errorf("%v", err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "node1.toml")); err != nil || string(b) != "the first's" {
		t.Errorf("%q, %v", b, err)
	}
	if err := l.Unlock(); err != nil {
		t.Fatal(err)
	}
	again, err := lockDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Unlock(); err != nil {
		t.Error(err)
	}
}
