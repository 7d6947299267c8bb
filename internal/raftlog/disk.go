package raftlog

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// disk is the seam to the file system for everything that can lose data. Tests replace
// single functions to inject errors.
type disk struct {
	writeAt  func(f *os.File, b []byte, off int64) (int, error)
	datasync func(f *os.File) error // fdatasync(2)
	sync     func(f *os.File) error // fsync(2)
	syncDir  func(path string) error
	allocate func(f *os.File, bytes int64) error
	remove   func(path string) error
}

func realDisk() disk {
	return disk{
		writeAt:  func(f *os.File, b []byte, off int64) (int, error) { return f.WriteAt(b, off) },
		datasync: datasync,
		sync:     func(f *os.File) error { return f.Sync() },
		syncDir:  syncDir,
		allocate: allocate,
		remove:   os.Remove,
	}
}

// disturbed asks before each sync of a file whether it may succeed.
func (d disk) disturbed(before func() error) disk {
	datasync, sync := d.datasync, d.sync
	ask := func(f *os.File, sync func(*os.File) error) error {
		if err := before(); err != nil {
			return err
		}
		return sync(f)
	}
	d.datasync = func(f *os.File) error { return ask(f, datasync) }
	d.sync = func(f *os.File) error { return ask(f, sync) }
	return d
}

// datasync retries only on EINTR, where nothing was tried yet.
func datasync(f *os.File) error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func syncDir(path string) error {
	d, err := os.Open(filepath.Clean(path))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// allocate reserves space and size, so that fdatasync need not write a new file size and a full
// disk shows at a segment's creation. File systems that cannot do it are used as they are.
func allocate(f *os.File, bytes int64) error {
	for {
		err := unix.Fallocate(int(f.Fd()), 0, 0, bytes)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOSYS):
			return nil
		}
		return err
	}
}
