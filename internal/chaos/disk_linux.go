package chaos

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// diskBytes is the size of the small file system while it is not full.
const diskBytes = 8 << 30

// smallDisk is a file system of its own for the files of one node. A nil one is none.
type smallDisk struct {
	k   int
	dir string
}

// mountDisk makes the file system for a node's files, if a fault needs it and no node has it.
func (c *cluster) mountDisk(n *node) error {
	if c.disk != nil || !slices.Contains(c.o.Faults, "disk-full") {
		return nil
	}
	d := &smallDisk{k: n.k, dir: n.config.DataDir}
	if err := unix.Mount("tutti-chaos", d.dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=755", diskBytes)); err != nil {
		return fmt.Errorf("mount %s: %w", d.dir, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.disk, n.small = d, true
	return nil
}

// fill leaves no room but the last few pages.
func (d *smallDisk) fill() error {
	var err error
	for range 20 { // what is written meanwhile makes the size impossible
		var st unix.Statfs_t
		if err = unix.Statfs(d.dir, &st); err != nil {
			return err
		}
		used := int64(st.Blocks-st.Bfree) * st.Bsize
		if err = d.resize(used + 16*st.Bsize); err == nil {
			return nil
		}
	}
	return err
}

// free makes room again.
func (d *smallDisk) free() error { return d.resize(diskBytes) }

func (d *smallDisk) resize(bytes int64) error {
	if err := unix.Mount("tutti-chaos", d.dir, "tmpfs", unix.MS_REMOUNT, fmt.Sprintf("size=%d", bytes)); err != nil {
		return fmt.Errorf("remount %s: %w", d.dir, err)
	}
	return nil
}

func (d *smallDisk) unmount() error {
	if d == nil {
		return nil
	}
	if err := unix.Unmount(d.dir, 0); err != nil {
		return fmt.Errorf("unmount %s: %w", d.dir, err)
	}
	return nil
}

// unmountBelow removes the file systems an earlier run left below dir.
func unmountBelow(dir string) error {
	b, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return err
	}
	var errs []error
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) > 1 && f[0] == "tutti-chaos" && strings.HasPrefix(f[1], dir+string(filepath.Separator)) {
			errs = append(errs, unix.Unmount(f[1], 0))
		}
	}
	return errors.Join(errs...)
}
