package instance

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tuttidb/tutti/internal/database/embedded/untar"
)

// replacedSuffix is behind the name of a data directory that gives way to another.
const replacedSuffix = ".replaced"

// Replace is CloneFrom in the place of the database that is in the data directory, if there is one: that goes once the
// clone is complete. Until then both need their room on the disk. The server must be stopped.
func (i *Instance) Replace(ctx context.Context, cfg *pgconn.Config, progress func(bytes int64)) error {
	return i.create(".clone", true, fillFrom(ctx, i, cfg, progress))
}

// takePlace puts work in the place of dir, durably, and removes what was there.
func takePlace(work, dir string) error {
	parent, old := filepath.Dir(dir), dir+replacedSuffix
	if err := os.Rename(dir, old); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("data directory: %w", err)
	}
	if err := os.Rename(work, dir); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	if err := untar.SyncFile(parent); err != nil {
		return err
	}
	return os.RemoveAll(old)
}

// Settle ends what an interrupted Replace has left of data directory dir: the old database is there again, or gone. No
// server runs on it, nor does anybody else use it.
func Settle(dir string) error {
	old := dir + replacedSuffix
	if _, err := os.Lstat(old); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	_, err := os.Lstat(dir)
	switch {
	case err == nil:
		err = os.RemoveAll(old)
	case errors.Is(err, fs.ErrNotExist):
		err = os.Rename(old, dir)
	}
	if err == nil {
		err = untar.SyncFile(filepath.Dir(dir))
	}
	if err != nil {
		return fmt.Errorf("data directory: settle what a clone has replaced: %w", err)
	}
	return nil
}
