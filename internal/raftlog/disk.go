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
	// openDirect opens a file for writeDirect, which writes whole blocks of the size it returns, and
	// durably. EINVAL, also from the first write, says that the file system cannot do it.
	openDirect  func(path string) (*os.File, int64, error)
	writeDirect func(f *os.File, b []byte, off int64) (int, error)

	writeAt  func(f *os.File, b []byte, off int64) (int, error)
	datasync func(f *os.File) error // fdatasync(2)
	sync     func(f *os.File) error // fsync(2)
	syncDir  func(path string) error
	allocate func(f *os.File, bytes int64) error
	remove   func(path string) error
}

func realDisk() disk {
	return disk{
		openDirect:  openDirect,
		writeDirect: (*os.File).WriteAt,

		writeAt:  (*os.File).WriteAt,
		datasync: datasync,
		sync:     func(f *os.File) error { return f.Sync() },
		syncDir:  syncDir,
		allocate: allocate,
		remove:   os.Remove,
	}
}

// disturbed asks before each sync of a file, and each write that contains one, whether it may
// succeed.
func (d disk) disturbed(before func() error) disk {
	datasync, sync, writeDirect := d.datasync, d.sync, d.writeDirect
	ask := func(f *os.File, sync func(*os.File) error) error {
		if err := before(); err != nil {
			return err
		}
		return sync(f)
	}
	d.datasync = func(f *os.File) error { return ask(f, datasync) }
	d.sync = func(f *os.File) error { return ask(f, sync) }
	d.writeDirect = func(f *os.File, b []byte, off int64) (int, error) {
		if err := before(); err != nil {
			return 0, err
		}
		return writeDirect(f, b, off)
	}
	return d
}

func openDirect(path string) (*os.File, int64, error) {
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_DIRECT|unix.O_DSYNC, 0)
	if err != nil {
		return nil, 0, err
	}
	block, err := directBlock(f)
	if err != nil {
		return nil, 0, joinClose(err, f)
	}
	return f, block, nil
}

// directBlock asks for the block size of direct writes. Kernels before 6.1 and some file
// systems do not tell; they take pages.
func directBlock(f *os.File) (int64, error) {
	var st unix.Statx_t
	err := unix.Statx(int(f.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_DIOALIGN, &st)
	if err != nil || st.Mask&unix.STATX_DIOALIGN == 0 {
		return blockBytes, nil
	}
	block := int64(max(blockBytes, st.Dio_mem_align, st.Dio_offset_align))
	if st.Dio_offset_align == 0 || block > blockBytesMax {
		return 0, unix.EINVAL
	}
	return block, nil
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
// disk shows when a segment begins or grows. File systems that cannot do it are used as they are.
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
