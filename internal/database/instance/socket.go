package instance

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

// maxSocketPath is the longest path of a unix socket in bytes: sun_path less its final NUL.
func maxSocketPath() int {
	if runtime.GOOS == "linux" {
		return 107
	}
	return 103
}

func (i *Instance) socketIn(dir string) string {
	return filepath.Join(dir, fmt.Sprintf(".s.PGSQL.%d", i.o.Port))
}

// SocketDir is the directory of the unix socket, "" while it is not known (see ConnString).
func (i *Instance) SocketDir() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.socketDir
}

// SocketPath is the path of the unix socket. Valid from the first successful Start on.
func (i *Instance) SocketPath() string { return i.socketIn(i.SocketDir()) }

// checkSocketPath says why a socket cannot be in dir: its path is too long, or holds a comma,
// which separates hosts in a connection string.
func (i *Instance) checkSocketPath(dir string) error {
	p := i.socketIn(dir)
	if len(p) > maxSocketPath() {
		return fmt.Errorf("socket path %s has %d bytes, the operating system allows %d: choose a shorter socket "+
			"directory",
			p, len(p), maxSocketPath())
	}
	if strings.Contains(p, ",") {
		return fmt.Errorf("socket path %s holds a comma: choose another socket directory", p)
	}
	return nil
}

func (i *Instance) socketRecord() string { return i.o.DataDir + ".socketdir" }

// knownSocketDir is the directory that follows from the options or was recorded by an
// earlier life, "" if it is still to be chosen.
func (i *Instance) knownSocketDir() string {
	if i.o.SocketDir != "" {
		if abs, err := filepath.Abs(i.o.SocketDir); err == nil {
			return abs
		}
		return i.o.SocketDir
	}
	if d := i.o.DataDir + ".run"; i.checkSocketPath(d) == nil {
		return d
	}
	b, err := os.ReadFile(i.socketRecord())
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// prepareSocketDir chooses and makes the socket's directory.
func (i *Instance) prepareSocketDir(a *account) error {
	dir := i.knownSocketDir()
	if dir != "" {
		if err := i.checkSocketPath(dir); err != nil {
			return err
		}
	}
	recorded := i.o.SocketDir == "" && dir != i.o.DataDir+".run"
	if dir == "" || recorded && !ownDir(dir, a) {
		var err error
		if dir, err = i.tempSocketDir(); err != nil {
			return err
		}
	}
	_, err := os.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		err = os.MkdirAll(filepath.Dir(dir), 0o755)
		if err == nil {
			err = os.Mkdir(dir, 0o700)
		}
	}
	if err == nil && (i.o.SocketDir == "" || isEmptyOwn(dir)) {
		err = a.chown(dir)
	}
	if err != nil {
		return fmt.Errorf("socket directory: %w", err)
	}
	i.mu.Lock()
	i.socketDir = dir
	i.mu.Unlock()
	return nil
}

// tempSocketDir makes a short directory with an unpredictable name and records it.
func (i *Instance) tempSocketDir() (string, error) {
	dir, err := os.MkdirTemp("", "tutti-")
	if err != nil {
		return "", fmt.Errorf("socket directory: %w", err)
	}
	if err := i.checkSocketPath(dir); err != nil {
		return "", errors.Join(err, os.Remove(dir))
	}
	if err := os.WriteFile(i.socketRecord(), []byte(dir+"\n"), 0o600); err != nil {
		return "", errors.Join(os.Remove(dir), fmt.Errorf("socket directory: %w", err))
	}
	i.log.Info("no socket can be beside the data directory", "socketdir", dir)
	return dir, nil
}

// ownDir reports whether a recorded directory is still ours: anybody may have made a new one
// of that name below the temporary directory.
func ownDir(dir string, a *account) bool {
	fi, err := os.Lstat(dir)
	if err != nil || !fi.IsDir() || fi.Mode().Perm()&0o077 != 0 {
		return false
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	return ok && (int(st.Uid) == os.Geteuid() || a != nil && int(st.Uid) == a.uid)
}

// isEmptyOwn reports whether dir is an empty directory of this process's user: one that was
// made for the socket, and may be given to the server's user.
func isEmptyOwn(dir string) bool {
	fi, err := os.Lstat(dir)
	if err != nil || !fi.IsDir() || fi.Mode()&fs.ModeSticky != 0 {
		return false
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	es, err := os.ReadDir(dir)
	return ok && int(st.Uid) == os.Geteuid() && err == nil && len(es) == 0
}
