package untar

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// SyncTree makes everything below dir, and dir itself, durable: contents and names. Call it
// before the rename that publishes an unpacked tree.
func SyncTree(dir string) error {
	return filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return fmt.Errorf("sync: %w", err)
		}
		if !d.IsDir() && !d.Type().IsRegular() {
			return nil
		}
		return SyncFile(p)
	})
}

// SyncFile makes one file's contents, or one directory's names, durable.
func SyncFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("sync: %w", err)
	}
	err = f.Sync()
	if errors.Is(err, syscall.EINVAL) {
		err = nil // a file system that cannot sync directories
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("sync %s: %w", path, err)
	}
	return nil
}
