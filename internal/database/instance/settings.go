package instance

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/renameio/v2"

	"github.com/tuttidb/tutti/internal/database/embedded"
)

const (
	confName    = "tutti.conf"
	includeLine = "include = 'tutti.conf'"
)

// BaseSettings is what every managed server runs with unless Options.Settings says otherwise.
// Commits are asynchronous because the replicated log is the durable place (DESIGN, G1);
// fsync and full_page_writes stay on, so a crash never damages the database itself.
func BaseSettings() map[string]string {
	return map[string]string{
		"listen_addresses":          "",
		"unix_socket_permissions":   "0700",
		"synchronous_commit":        "off",
		"fsync":                     "on",
		"full_page_writes":          "on",
		"wal_level":                 "replica",
		"max_wal_senders":           "4",
		"max_replication_slots":     "10",
		"max_connections":           "200",
		"shared_buffers":            "128MB",
		"max_prepared_transactions": "0",
		"logging_collector":         "off",
		"log_destination":           "stderr",
		"log_line_prefix":           "%m [%p] %q%u@%d ",
	}
}

// ownSettings are decided by Options' fields alone: a value elsewhere would make
// ConnString or the files' places wrong. A server that recovers by itself would not tell that it has lost commits.
var ownSettings = []string{
	"port", "unix_socket_directories", "data_directory", "config_file", "hba_file", "ident_file",
	"external_pid_file", "restart_after_crash",
}

// commandLine settings are passed as arguments as well, which beats ALTER SYSTEM: a session
// must not be able to move or open the server behind Tutti's back.
var commandLine = []string{"listen_addresses", "unix_socket_permissions"}

var settingName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_$]*(\.[A-Za-z_][A-Za-z0-9_$]*)*$`)

// CheckSettings refuses settings that cannot be given to a server, whatever version it is of.
func CheckSettings(m map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(m)) {
		switch value := m[name]; {
		case !settingName.MatchString(name):
			return embedded.Setupf("%q is not the name of a PostgreSQL setting", name)
		case slices.Contains(ownSettings, strings.ToLower(name)):
			return embedded.Setupf("the setting %s of PostgreSQL cannot be given: Tutti decides on it", name)
		case strings.ContainsAny(value, "\n\r\x00"):
			return embedded.Setupf("the value of the setting %s of PostgreSQL holds a line break", name)
		}
	}
	return nil
}

// effective merges BaseSettings and Options.Settings; names are case-insensitive.
func (i *Instance) effective() map[string]string {
	m := BaseSettings()
	maps.Copy(m, i.logSettings())
	for name, value := range i.o.Settings {
		m[strings.ToLower(name)] = value
	}
	return m
}

// render writes settings in postgresql.conf's syntax, sorted by name.
func render(m map[string]string) []byte {
	names := make([]string, 0, len(m))
	for n := range m {
		names = append(names, n)
	}
	slices.Sort(names)
	var b bytes.Buffer
	for _, n := range names {
		fmt.Fprintf(&b, "%s = '%s'\n", n, strings.NewReplacer(`\`, `\\`, `'`, `''`).Replace(m[n]))
	}
	return b.Bytes()
}

// writeSettings writes tutti.conf and makes postgresql.conf include it.
func (i *Instance) writeSettings(a *account) error {
	conf := append([]byte("# Written by Tutti at every start: do not edit.\n"), render(i.effective())...)
	if err := writeFile(filepath.Join(i.o.DataDir, confName), conf, a); err != nil {
		return err
	}
	main := filepath.Join(i.o.DataDir, "postgresql.conf")
	old, err := os.ReadFile(main)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("settings: %w", err)
	}
	for line := range strings.Lines(string(old)) {
		if strings.TrimSpace(line) == includeLine {
			return nil
		}
	}
	if len(old) > 0 && old[len(old)-1] != '\n' {
		old = append(old, '\n')
	}
	return writeFile(main, append(old, includeLine+"\n"...), a)
}

// writeFile replaces a file of the data directory atomically, for the server's user only.
func writeFile(path string, data []byte, a *account) error {
	f, err := renameio.NewPendingFile(path, renameio.WithTempDir(filepath.Dir(path)),
		renameio.WithStaticPermissions(0o600))
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	_, err = f.Write(data)
	if err == nil && a != nil {
		err = f.Chown(a.uid, a.gid)
	}
	if err == nil {
		err = f.CloseAtomicallyReplace()
	}
	if err = errors.Join(err, f.Cleanup()); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}
