package instance

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Share makes an empty file in the data directory, anew, that the server may read. name is relative to it, and its
// folder exists.
// What is there already is not followed: the server's user could have put a link there.
func (i *Instance) Share(name string) (*os.File, error) {
	a, err := i.account()
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(i.o.DataDir)
	if err != nil {
		return nil, fmt.Errorf("shared file: %w", err)
	}
	defer root.Close()
	if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("shared file: %w", err)
	}
	f, err := root.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("shared file: %w", err)
	}
	if a != nil {
		err = f.Chown(a.uid, a.gid)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("shared file: %w", err), f.Close())
	}
	return f, nil
}

// Replace gives a file in the data directory, that the server may read, other contents: who reads it finds either the
// old ones or the new ones. name is as in Share.
func Replace(i *Instance, name string, contents []byte) error {
	next := name + ".new"
	f, err := i.Share(next)
	if err != nil {
		return err
	}
	_, err = f.Write(contents)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("shared file: %w", err)
	}
	root, err := os.OpenRoot(i.o.DataDir)
	if err != nil {
		return fmt.Errorf("shared file: %w", err)
	}
	defer root.Close()
	if err := root.Rename(next, name); err != nil {
		return fmt.Errorf("shared file: %w", err)
	}
	return nil
}
