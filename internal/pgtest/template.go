package pgtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"github.com/tuttidb/tutti/internal/database/embedded"
	"github.com/tuttidb/tutti/internal/database/instance"
)

// templateFormat is part of the template's name: raise it when what Init makes changes.
const templateFormat = "1"

var templateOnce struct {
	sync.Mutex
	dir string
}

// template returns a directory with initdb's result for this build, made by the first
// process that needs it.
func template(ctx context.Context, b embedded.Build) (string, error) {
	templateOnce.Lock()
	defer templateOnce.Unlock()
	if templateOnce.dir != "" {
		return templateOnce.dir, nil
	}
	cache, err := embedded.DefaultCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, fmt.Sprintf("pgtest-%s-%s-%s", templateFormat, b.Version, pathName(b.BinDir)))
	if _, err := os.Stat(dir); err != nil {
		if err := makeTemplate(ctx, b, dir); err != nil {
			return "", fmt.Errorf("template: %w", err)
		}
	}
	templateOnce.dir = dir
	return dir, nil
}

func pathName(p string) string { return strings.ReplaceAll(strings.Trim(p, "/"), "/", "_") }

func makeTemplate(ctx context.Context, b embedded.Build, dir string) (err error) {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	lock := flock.New(dir + ".template.lock")
	if _, err := lock.TryLockContext(ctx, 20*time.Millisecond); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if _, err := os.Stat(dir); err == nil {
		return nil // another process was faster
	}
	// Init makes the directory appear whole and durable, by a rename.
	return instance.New(instance.Options{Build: b, DataDir: dir}).Init(ctx)
}

// NewDataDir makes dst a fresh data directory, as initdb would and in less time. The server that is started on it gives
// it to the user it runs as.
func NewDataDir(ctx context.Context, b embedded.Build, dst string) error {
	src, err := template(ctx, b)
	if err != nil {
		return err
	}
	return filepath.WalkDir(src, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		to := filepath.Join(dst, strings.TrimPrefix(p, src))
		if d.IsDir() {
			return os.Mkdir(to, 0o700)
		}
		return copyFile(p, to)
	})
}

// copyFile shares the blocks where the file system can (copy_file_range).
func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
