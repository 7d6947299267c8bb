package instance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/tuttidb/tutti/internal/database/embedded"
	"github.com/tuttidb/tutti/internal/database/embedded/untar"
)

const (
	// adoptedName is a file in a data directory that an operator has adopted. Copies of the database have it, too.
	adoptedName = "tutti.adopted"
	// beforeSuffix is behind the names of configuration files as they were before that.
	beforeSuffix = ".before-tutti"
)

// notAdopted are files of a stopped server's that a copy of it does without.
var notAdopted = []string{"postmaster.pid", "postmaster.opts", "current_logfiles", "log", "pg_log"}

// configFiles are those that an adopted data directory gets anew.
var configFiles = []string{"postgresql.conf", "postgresql.auto.conf", "pg_hba.conf", "pg_ident.conf"}

// Adopted reports whether an operator has said of the database in a data directory that a cluster begins with it.
func Adopted(dir string) (bool, error) {
	_, err := os.Stat(filepath.Join(dir, adoptedName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("data directory: %w", err)
	}
	return err == nil, nil
}

// MayAdopt says why a data directory cannot be adopted as it is, by its files alone; nil if it may be.
func MayAdopt(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, "PG_VERSION")); err != nil {
		return embedded.Setupf("%s is no data directory of PostgreSQL: %w", dir, err)
	}
	if _, err := embedded.DataMajor(dir); err != nil {
		return err
	}
	pids, err := serversOn(dir)
	switch {
	case err != nil:
		return err
	case len(pids) > 0 && configured(dir):
		return fmt.Errorf("%s: %w: stop the node to which it belongs, and try again", dir, ErrRunning)
	case len(pids) > 0:
		return fmt.Errorf("%s: %w: PostgreSQL runs on it (processes %v). Stop it, `pg_ctl stop -m fast -D %s` or as "+
			"its service is stopped, see that nothing starts it again, and try again", dir, ErrRunning, pids, dir)
	}
	for _, name := range []string{"standby.signal", "recovery.signal", "backup_label"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return embedded.Setupf("%s is a standby or a backup (it has a file %s): start it with its own "+
				"PostgreSQL, promote it, stop it, and try again", dir, name)
		}
	}
	state, err := readControl(dir)
	if err != nil {
		return err
	}
	if state != dbShutdowned {
		return embedded.Setupf("%s was not shut down cleanly, or a server runs on it that cannot be seen from here, "+
			"in another container: start it with its own PostgreSQL, stop it, and try again", dir)
	}
	return nil
}

// Prepared lists the transactions of a stopped server that are prepared and not ended, by their files' names.
func Prepared(dir string) (names []string, err error) {
	entries, err := os.ReadDir(filepath.Join(dir, "pg_twophase"))
	if err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, nil
}

// Adoption is how a data directory that is there becomes that of an Instance. Its server is stopped.
type Adoption struct {
	From string
	// Move moves it, else it is copied. It is neither if From is the Instance's already.
	Move bool
	// Settings are those of before that stay (Kept).
	Settings map[string]string
	Progress func(bytes int64) // nil: nobody wants to know
}

// Adopt carries an adoption out: the data directory is complete when it has the Instance's name (I1), and then says
// that it was adopted. Broken off behind a move, it is done again from where the directory is now.
func Adopt(ctx context.Context, i *Instance, o Adoption) error {
	var err error
	switch {
	case o.From == i.o.DataDir:
	case o.Move:
		err = takeOver(o.From, i.o.DataDir)
	default:
		return i.create(".adopt", false, func(work string, a *account) error {
			if err := copyData(ctx, o.From, work, a, o.Progress); err != nil {
				return err
			}
			return configureAdopted(work, o.Settings, a)
		})
	}
	if err != nil {
		return err
	}
	lock, err := i.lockData()
	if err != nil {
		return err
	}
	defer lock.Close()
	a, err := i.account()
	if err == nil {
		err = configureAdopted(i.o.DataDir, o.Settings, a)
	}
	if err == nil {
		err = untar.SyncFile(i.o.DataDir)
	}
	return err
}

// takeOver moves a data directory to an Instance's place.
func takeOver(from, to string) error {
	if es, err := os.ReadDir(to); err == nil && len(es) > 0 {
		return fmt.Errorf("%s: %w", to, ErrInitialized)
	}
	err := os.Remove(to)
	if errors.Is(err, fs.ErrNotExist) {
		err = os.MkdirAll(filepath.Dir(to), 0o755)
	}
	if err == nil {
		err = os.Rename(from, to)
	}
	switch {
	case errors.Is(err, syscall.EXDEV):
		return fmt.Errorf("the data directory cannot be moved to another file system: have it copied: %w", err)
	case err != nil:
		return fmt.Errorf("the data directory cannot be moved: %w", err)
	}
	return errors.Join(untar.SyncFile(filepath.Dir(to)), untar.SyncFile(filepath.Dir(from)))
}

// configured reports whether Tutti has run a server on a data directory.
func configured(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, confName))
	return err == nil
}

// configureAdopted writes a configuration in the place of what is there, which is kept beside it. A server that Tutti
// runs already has its own. The mark comes last.
func configureAdopted(dir string, settings map[string]string, a *account) error {
	if !configured(dir) {
		for _, name := range configFiles {
			path := filepath.Join(dir, name)
			if _, err := os.Lstat(path + beforeSuffix); err == nil {
				continue // an adoption before has kept it
			}
			if err := os.Rename(path, path+beforeSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("data directory: %w", err)
			}
		}
		if err := configureClone(dir, settings, hbaWithPasswords, a); err != nil {
			return err
		}
	}
	return writeFile(filepath.Join(dir, adoptedName), []byte("A cluster of Tutti begins with this database.\n"), a)
}

// copyData copies a data directory without its server's running state. What is a link to a directory becomes one.
func copyData(ctx context.Context, from, to string, a *account, progress func(int64)) error {
	var bytes int64
	var walk func(from, to string) error
	walk = func(from, to string) error {
		entries, err := os.ReadDir(from)
		if err != nil {
			return err
		}
		for _, e := range entries {
			src, dst := filepath.Join(from, e.Name()), filepath.Join(to, e.Name())
			fi, err := os.Stat(src)
			switch {
			case err != nil:
			case ctx.Err() != nil:
				err = context.Cause(ctx)
			case fi.IsDir():
				if err = os.Mkdir(dst, 0o700); err == nil {
					err = walk(src, dst)
				}
			case fi.Mode().IsRegular():
				var n int64
				n, err = copyFile(src, dst)
				if bytes += n; progress != nil {
					progress(bytes)
				}
			default:
				err = fmt.Errorf("%s is neither a file nor a directory", src)
			}
			if err == nil {
				err = a.chown(dst)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	if err := walk(from, to); err != nil {
		return fmt.Errorf("copy the data directory: %w", err)
	}
	for _, name := range notAdopted {
		if err := os.RemoveAll(filepath.Join(to, name)); err != nil {
			return fmt.Errorf("copy the data directory: %w", err)
		}
	}
	return nil
}

func copyFile(from, to string) (n int64, err error) {
	src, err := os.Open(from)
	if err != nil {
		return 0, err
	}
	defer src.Close()
	dst, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return 0, err
	}
	n, err = io.Copy(dst, src)
	return n, errors.Join(err, dst.Close())
}

// ReadSettings reads the settings of the configuration files of a data directory, the later ones winning. Main names
// postgresql.conf where it is elsewhere. Files that they include are not read; the directives are among the settings.
// There are none of a server that Tutti runs already: its files stay.
func ReadSettings(dir, main string) (map[string]string, error) {
	if configured(dir) {
		return nil, nil
	}
	kept := func(name string) string {
		path := filepath.Join(dir, name)
		if _, err := os.Lstat(path + beforeSuffix); err == nil {
			return path + beforeSuffix
		}
		return path
	}
	named := main != ""
	if !named {
		main = kept("postgresql.conf")
	}
	all := map[string]string{}
	for _, path := range []string{main, kept("postgresql.auto.conf")} {
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) && !(named && path == main) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("settings: %w", err)
		}
		for line := range strings.Lines(string(text)) {
			if name, value := setting(line); name != "" {
				all[name] = value
			}
		}
	}
	return all, nil
}

// setting reads a line of postgresql.conf.
func setting(line string) (name, value string) {
	line = strings.TrimSpace(line)
	end := strings.IndexFunc(line, func(r rune) bool { return r == '=' || r == ' ' || r == '\t' })
	if end <= 0 || strings.HasPrefix(line, "#") {
		return "", ""
	}
	name = strings.ToLower(line[:end])
	rest := strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line[end:]), "="))
	if !strings.HasPrefix(rest, "'") {
		rest, _, _ = strings.Cut(rest, "#")
		return name, strings.TrimSpace(rest)
	}
	var b strings.Builder
	for k := 1; k < len(rest); k++ {
		switch c := rest[k]; {
		case (c == '\'' || c == '\\') && k+1 < len(rest) && (c == '\\' || rest[k+1] == '\''):
			k++
			b.WriteByte(rest[k])
		case c == '\'':
			return name, b.String()
		default:
			b.WriteByte(c)
		}
	}
	return name, b.String()
}

// Kept divides settings into those that an adopted server keeps, as they say what statements mean, and the names of
// those that do not go without saying: an operator may want them in the node's configuration.
func Kept(all map[string]string) (kept map[string]string, left []string) {
	kept = map[string]string{}
	ours := BaseSettings()
	for name, value := range all { // order-free: sorted below
		_, decided := ours[name]
		switch {
		case slices.Contains(inherited, name):
			kept[name] = value
		case decided && value == ours[name], slices.Contains(ownSettings, name), slices.Contains(unasked, name):
		default:
			left = append(left, name)
		}
	}
	slices.Sort(left)
	return kept, left
}

// unasked are settings that initdb or a distribution writes, and that mean nothing below a node.
var unasked = []string{
	"dynamic_shared_memory_type", "max_wal_size", "min_wal_size", "log_timezone", "listen_addresses", "ssl",
	"ssl_cert_file", "ssl_key_file", "cluster_name", "log_line_prefix", "stats_temp_directory", "max_connections",
	"unix_socket_permissions", "synchronous_commit",
}
