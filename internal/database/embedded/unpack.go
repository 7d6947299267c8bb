package embedded

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"
	"github.com/xi2/xz"

	"github.com/tuttidb/tutti/internal/database/embedded/untar"
)

// Limits of an unpacked build. The largest published one has 308 MB in 1,044 entries.
const (
	maxUnpackedBytes   = 1 << 30
	maxUnpackedEntries = 20_000
	lockPoll           = 50 * time.Millisecond
)

// findEmbedded returns this platform's build from the cache, downloading it first if needed.
func findEmbedded(ctx context.Context, o Options) (Build, error) {
	a := o.artifact
	if a == nil {
		this, err := thisArtifact()
		if err != nil {
			return Build{}, err
		}
		a = &this
	}
	cache := o.CacheDir
	if cache == "" {
		var err error
		if cache, err = DefaultCacheDir(); err != nil {
			return Build{}, err
		}
	}
	dir := filepath.Join(cache, a.dirName())
	if _, err := os.Stat(dir); err != nil {
		if o.NoDownload {
			return Build{}, fmt.Errorf("the embedded build is not in %s and downloads are off", cache)
		}
		if err := install(ctx, o, *a, cache, dir); err != nil {
			return Build{}, err
		}
	}
	b, err := Probe(ctx, filepath.Join(dir, "bin"))
	if err != nil {
		return Build{}, fmt.Errorf("the embedded build does not work on this machine (it needs glibc or macOS): %w",
			err)
	}
	b.Embedded = true
	return b, nil
}

// install downloads, verifies and unpacks a into dir, once among all processes (E2, E3).
func install(ctx context.Context, o Options, a artifact, cache, dir string) (err error) {
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return fmt.Errorf("cache directory: %w", err)
	}
	lock := flock.New(dir+".lock", flock.SetPermissions(0o644))
	if _, err := lock.TryLockContext(ctx, lockPoll); err != nil {
		return fmt.Errorf("waiting for another download (%s.lock): %w", dir, err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if _, err := os.Stat(dir); err == nil {
		return nil // another process was faster
	}

	work, err := os.MkdirTemp(cache, ".unpack-")
	if err != nil {
		return fmt.Errorf("cache directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	jar := filepath.Join(work, "build.jar")
	if err := download(ctx, o, a, jar); err != nil {
		return err
	}
	tree := filepath.Join(work, "tree")
	if err := os.Mkdir(tree, 0o755); err != nil {
		return fmt.Errorf("cache directory: %w", err)
	}
	if err := unpackJar(jar, tree); err != nil {
		return fmt.Errorf("unpacking the download of %s: %w", a.url(), err)
	}
	if err := os.Chmod(tree, 0o755); err != nil {
		return fmt.Errorf("cache directory: %w", err)
	}
	if err := untar.SyncTree(tree); err != nil {
		return fmt.Errorf("cache directory: %w", err)
	}
	if err := os.Rename(tree, dir); err != nil {
		return fmt.Errorf("cache directory: %w", err)
	}
	return untar.SyncFile(cache)
}

// unpackJar unpacks the single .txz inside the zip file jar into dir.
func unpackJar(jar, dir string) error {
	z, err := zip.OpenReader(jar)
	if err != nil {
		return fmt.Errorf("not a zip file: %w", err)
	}
	defer z.Close()
	var txz *zip.File
	for _, f := range z.File {
		if !strings.HasSuffix(f.Name, ".txz") {
			continue
		}
		if txz != nil {
			return fmt.Errorf("two .txz files inside: %s and %s", txz.Name, f.Name)
		}
		txz = f
	}
	if txz == nil {
		return errors.New("no .txz file inside")
	}
	r, err := txz.Open()
	if err != nil {
		return fmt.Errorf("%s: %w", txz.Name, err)
	}
	defer r.Close()
	if err := unpackTxz(r, dir); err != nil {
		return fmt.Errorf("%s: %w", txz.Name, err)
	}
	return nil
}

func unpackTxz(r io.Reader, dir string) error {
	x, err := xz.NewReader(r, 0)
	if err != nil {
		return fmt.Errorf("not an xz file: %w", err)
	}
	return untar.Extract(x, dir, untar.Options{
		MaxBytes:   maxUnpackedBytes,
		MaxEntries: maxUnpackedEntries,
		Symlinks:   true,
	})
}
