package instance

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/tuttidb/tutti/internal/database/embedded"
)

// account is the operating system user the server runs as when this process is root. A nil
// account means "as this process", and its methods do nothing.
type account struct {
	name     string
	uid, gid int
}

// candidates are tried in order when Options.User is empty.
var candidates = []string{"postgres", "nobody"}

// account decides who runs the server (I6).
func (i *Instance) account() (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	if i.o.User != "" {
		return lookup(i.o.User)
	}
	if fi, err := os.Stat(i.o.DataDir); err == nil {
		if st, ok := fi.Sys().(*syscall.Stat_t); ok && st.Uid != 0 {
			return &account{name: "uid " + strconv.Itoa(int(st.Uid)), uid: int(st.Uid), gid: int(st.Gid)}, nil
		}
	}
	for _, name := range candidates {
		if a, err := lookup(name); err == nil {
			return a, nil
		}
	}
	return nil, embedded.Setupf("PostgreSQL refuses to run as root and there is no user \"postgres\" or \"nobody\": " +
		"create one (`useradd --system postgres`) or run Tutti as an ordinary user")
}

func lookup(name string) (*account, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return nil, fmt.Errorf("user to run PostgreSQL as: %w", err)
	}
	uid, err := strconv.Atoi(u.Uid)
	gid, err2 := strconv.Atoi(u.Gid)
	if err = errors.Join(err, err2); err != nil {
		return nil, fmt.Errorf("user %s: %w", name, err)
	}
	if uid == 0 {
		return nil, fmt.Errorf("user %s is root: PostgreSQL refuses to run as root", name)
	}
	return &account{name: name, uid: uid, gid: gid}, nil
}

// credential for a child process; nil leaves it alone.
func (a *account) credential() *syscall.Credential {
	if a == nil {
		return nil
	}
	return &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}
}

// chown gives one path to the account.
func (a *account) chown(path string) error {
	if a == nil {
		return nil
	}
	return os.Lchown(path, a.uid, a.gid)
}

// chownTree gives everything below dir to the account. It never leaves dir, and leaves files
// with several names alone: one of those could be somebody else's.
func (a *account) chownTree(dir string) error {
	if a == nil {
		return nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("chown: %w", err)
	}
	defer root.Close()
	return fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("chown: %w", err)
		}
		return a.chownIn(root, name)
	})
}

func (a *account) chownIn(root *os.Root, name string) error {
	if a == nil {
		return nil
	}
	fi, err := root.Lstat(name)
	if err != nil {
		return fmt.Errorf("chown: %w", err)
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok || int(st.Uid) == a.uid && int(st.Gid) == a.gid || fi.Mode().IsRegular() && st.Nlink > 1 {
		return nil
	}
	if err := root.Lchown(name, a.uid, a.gid); err != nil {
		return fmt.Errorf("chown: %w", err)
	}
	return nil
}

// reachable explains why the account cannot get to path, nil if its mode bits allow it.
func (a *account) reachable(path string) error {
	if a == nil {
		return nil
	}
	for p := path; ; p = filepath.Dir(p) {
		fi, err := os.Stat(p)
		if err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
		if st, ok := fi.Sys().(*syscall.Stat_t); ok && fi.IsDir() {
			bit := fs.FileMode(0o001)
			switch {
			case int(st.Uid) == a.uid:
				bit = 0o100
			case int(st.Gid) == a.gid:
				bit = 0o010
			}
			if fi.Mode().Perm()&bit == 0 {
				return embedded.Setupf("user %s, who runs PostgreSQL, cannot enter %s (mode %v), which is above %s: "+
					"`chmod o+x %s` or choose another directory",
					a.name, p, fi.Mode().Perm(), path, p)
			}
		}
		if p == filepath.Dir(p) {
			return nil
		}
	}
}

// environment is what the server and initdb see: nothing of ours that libpq or PostgreSQL
// would interpret, and a locale that exists everywhere.
func (i *Instance) environment() []string {
	env := []string{
		"PATH=" + i.o.Build.BinDir + ":/usr/local/bin:/usr/bin:/bin",
		"HOME=" + i.o.DataDir,
		"LC_ALL=C",
		"TMPDIR=" + os.TempDir(),
	}
	if tz, ok := os.LookupEnv("TZ"); ok {
		env = append(env, "TZ="+tz)
	}
	return env
}
