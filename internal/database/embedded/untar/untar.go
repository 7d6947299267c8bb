package untar

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// Options bound one Extract. The zero value refuses everything: set the limits.
type Options struct {
	MaxBytes   int64 // sum of file sizes, bytes
	MaxEntries int   // entries of every kind

	Symlinks bool // allow symbolic links that stay inside the directory

	// Skip, if set, names entries (cleaned, slash-separated) that are read past.
	Skip func(name string) bool

	// DirMode and FileMode override the archive's modes when not zero. Otherwise the
	// permission bits of the archive are used, without set-uid, set-gid and sticky.
	DirMode, FileMode fs.FileMode

	// Created, if set, is called for every file, directory and link made (for chown),
	// with the path relative to the directory. The archive's "." is not reported.
	Created func(root *os.Root, name string) error
}

// ErrUnsafe is wrapped by errors about an archive that breaks U1, U2 or U4.
var ErrUnsafe = errors.New("unsafe archive")

// ErrTooLarge is wrapped by errors about an archive that exceeds U3's limits.
var ErrTooLarge = errors.New("archive too large")

// Extract unpacks the tar stream r into the existing directory dir, until the end-of-archive
// mark or the end of r. On error the directory holds what was unpacked so far.
func Extract(r io.Reader, dir string, o Options) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("unpack: %w", err)
	}
	defer root.Close()

	x := extractor{root: root, o: o, left: o.MaxBytes}
	tr := tar.NewReader(r)
	for n := 0; ; n++ {
		h, err := tr.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("unpack: reading archive: %w", err)
		}
		if n >= o.MaxEntries {
			return fmt.Errorf("unpack: %w: more than %d entries", ErrTooLarge, o.MaxEntries)
		}
		if err := x.entry(h, tr); err != nil {
			return err
		}
	}
}

type extractor struct {
	root *os.Root
	o    Options
	left int64 // bytes that may still be written
}

func (x *extractor) entry(h *tar.Header, body io.Reader) error {
	name := path.Clean(strings.TrimSuffix(h.Name, "/"))
	if name == "." && h.Typeflag == tar.TypeDir {
		return nil
	}
	if !filepath.IsLocal(name) || name == "." || strings.ContainsRune(name, '\\') {
		return fmt.Errorf("unpack: %w: entry %q leaves the directory", ErrUnsafe, h.Name)
	}
	if x.o.Skip != nil && x.o.Skip(name) {
		return nil
	}
	if parent := path.Dir(name); parent != "." {
		if err := x.parents(parent); err != nil {
			return err
		}
	}
	var err error
	switch h.Typeflag {
	case tar.TypeDir:
		return x.dir(name, h)
	case tar.TypeReg:
		err = x.file(name, h, body)
	case tar.TypeSymlink:
		err = x.symlink(name, h)
	default:
		return fmt.Errorf("unpack: %w: entry %q has type %q; only files, directories and links are unpacked",
			ErrUnsafe, h.Name, h.Typeflag)
	}
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("unpack: %w: entry %q occurs twice", ErrUnsafe, h.Name)
	}
	if err != nil {
		return err
	}
	return x.created(name)
}

func (x *extractor) created(name string) error {
	if x.o.Created == nil {
		return nil
	}
	return x.o.Created(x.root, name)
}

// parents makes the directories above an entry that the archive did not list before it.
func (x *extractor) parents(parent string) error {
	if _, err := x.root.Stat(parent); err == nil {
		return nil
	}
	if up := path.Dir(parent); up != "." {
		if err := x.parents(up); err != nil {
			return err
		}
	}
	return x.dir(parent, &tar.Header{Name: parent, Mode: 0o755})
}

func (x *extractor) dir(name string, h *tar.Header) error {
	mode := pick(x.o.DirMode, h.FileInfo().Mode().Perm()|0o700)
	err := x.root.Mkdir(name, mode)
	if errors.Is(err, fs.ErrExist) {
		if fi, serr := x.root.Lstat(name); serr == nil && fi.IsDir() {
			return nil // listed again: harmless
		}
		return fmt.Errorf("unpack: %w: directory %q is already something else", ErrUnsafe, name)
	}
	if err != nil {
		return fmt.Errorf("unpack: %w", err)
	}
	if err := x.root.Chmod(name, mode); err != nil {
		return fmt.Errorf("unpack: %w", err)
	}
	return x.created(name)
}

func (x *extractor) file(name string, h *tar.Header, body io.Reader) error {
	if h.Size > x.left {
		return fmt.Errorf("unpack: %w: %q does not fit the limit of %d bytes", ErrTooLarge, h.Name, x.o.MaxBytes)
	}
	mode := pick(x.o.FileMode, h.FileInfo().Mode().Perm())
	f, err := x.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return fmt.Errorf("unpack: %w", err)
	}
	n, err := io.Copy(f, body)
	x.left -= n
	if err == nil {
		err = f.Chmod(mode) // the umask does not decide
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("unpack: writing %q: %w", name, err)
	}
	return nil
}

func (x *extractor) symlink(name string, h *tar.Header) error {
	if !x.o.Symlinks {
		return fmt.Errorf("unpack: %w: symbolic link %q -> %q is not allowed here", ErrUnsafe, h.Name, h.Linkname)
	}
	if h.Linkname == "" || path.IsAbs(h.Linkname) || !filepath.IsLocal(path.Join(path.Dir(name), h.Linkname)) {
		return fmt.Errorf("unpack: %w: symbolic link %q -> %q leaves the directory", ErrUnsafe, h.Name, h.Linkname)
	}
	if err := x.root.Symlink(h.Linkname, name); err != nil {
		return fmt.Errorf("unpack: %w", err)
	}
	return nil
}

func pick(override, archived fs.FileMode) fs.FileMode {
	if override != 0 {
		return override
	}
	return archived
}
