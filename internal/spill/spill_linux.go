package spill

import (
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// spill puts the pages of b, which is an allocation of its own, into a file.
func (f *Files) spill(b []byte) error {
	page := uintptr(os.Getpagesize())
	base := unsafe.SliceData(b)
	skip := -uintptr(unsafe.Pointer(base)) & (page - 1)
	if uintptr(len(b)) < skip+page {
		return nil
	}
	size := (uintptr(len(b)) - skip) &^ (page - 1)
	file, err := f.create(int64(size))
	if err != nil {
		return err
	}
	defer file.Close()
	at := uintptr(unsafe.Pointer(base)) + skip // an allocation so large does not move
	if errno := remap(at, size, unix.MAP_SHARED, file.Fd()); errno != 0 {
		restore(at, size) // whatever it has left there
		return fmt.Errorf("spill: map %d bytes: %w", size, errno)
	}
	f.added(at, size)
	// The runtime runs it when nothing points into b any more, and takes the memory only at the collection after that.
	runtime.SetFinalizer(base, func(b *byte) {
		f.mu.Lock()
		defer f.mu.Unlock()
		restore(at, size)
		f.removed(at)
		runtime.KeepAlive(b)
	})
	return nil
}

// create makes a file of so many bytes that has no name.
func (f *Files) create(size int64) (*os.File, error) {
	file, err := os.CreateTemp(f.dir, prefix)
	if err != nil {
		return nil, fmt.Errorf("spill: %w", err)
	}
	if err = os.Remove(file.Name()); err == nil {
		err = unix.Fallocate(int(file.Fd()), 0, 0, size)
	}
	if err != nil {
		_ = file.Close() // it is of no use
		return nil, fmt.Errorf("spill: %d bytes: %w", size, err)
	}
	return file, nil
}

// remap puts other pages in the place of some.
func remap(at, size, flags, file uintptr) unix.Errno {
	const access = unix.PROT_READ | unix.PROT_WRITE
	_, _, errno := unix.Syscall6(unix.SYS_MMAP, at, size, access, flags|unix.MAP_FIXED, file, 0)
	return errno
}

// restore makes pages plain memory again, all zero (SP2).
func restore(at, size uintptr) {
	if errno := remap(at, size, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS, ^uintptr(0)); errno != 0 {
		panic(fmt.Sprintf("spill: the runtime cannot have %d bytes back: %v", size, errno))
	}
}

// forget has the kernel take touched pages out of the process; they stay in the file.
func forget(at, size uintptr) {
	_, _, _ = unix.Syscall(unix.SYS_MADVISE, at, size, unix.MADV_DONTNEED) // else they stay a little longer
}
