package instance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tuttidb/tutti/internal/database/embedded"
)

// Reload gives the server other settings, as Options.Settings. A server that runs takes them over; the names of those
// are returned that it can take over only at its next Start. With an error nothing has changed: the server's own
// program has read the settings and refused one.
func (i *Instance) Reload(ctx context.Context, settings map[string]string) (waits []string, err error) {
	if err := CheckSettings(settings); err != nil {
		return nil, err
	}
	i.op.Lock()
	defer i.op.Unlock()
	before, old := i.effective(), i.o.Settings
	i.o.Settings = maps.Clone(settings)
	changed := differ(before, i.effective())
	r := i.current()
	if len(changed) == 0 || r == nil {
		return nil, nil
	}
	a, err := i.account()
	if err == nil {
		err = i.rewrite(ctx, a)
	}
	if err != nil {
		i.o.Settings = old
		return nil, err
	}
	if err := r.process.Signal(syscall.SIGHUP); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return nil, fmt.Errorf("PostgreSQL (process %d) cannot be told of its settings: %w", r.pid, err)
	}
	return i.postponed(ctx, changed)
}

// rewrite writes the settings into the file of the running server. If they are refused, the file is as it was before.
func (i *Instance) rewrite(ctx context.Context, a *account) error {
	path := filepath.Join(i.o.DataDir, confName)
	last, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("settings: %w", err)
	}
	if err := i.writeSettings(a); err != nil {
		return err
	}
	if why := i.examine(ctx, a, "data_directory"); why != "" {
		return errors.Join(embedded.Setupf("PostgreSQL refuses the settings: %s", why), writeFile(path, last, a))
	}
	return nil
}

// postponed lists those of settings that a server takes over at its start only.
func (i *Instance) postponed(ctx context.Context, names []string) (waits []string, err error) {
	c, err := pgconn.Connect(ctx, i.ConnString("", ""))
	if err != nil {
		i.log.Warn("PostgreSQL cannot be asked which settings wait for its next start", "err", err)
		return nil, nil
	}
	defer func() { _ = c.Close(ctx) }() // the server notices anyway
	const sql = `SELECT name FROM pg_catalog.pg_settings
WHERE context = 'postmaster' AND lower(name) = ANY ($1::pg_catalog.text[]) ORDER BY 1`
	rs := c.ExecParams(ctx, sql, [][]byte{[]byte("{" + strings.Join(names, ",") + "}")}, nil, nil, nil).Read()
	if rs.Err != nil {
		return nil, fmt.Errorf("asking which settings wait for the next start: %w", rs.Err)
	}
	for _, row := range rs.Rows {
		waits = append(waits, string(row[0]))
	}
	return waits, nil
}

// differ lists the names whose values differ.
func differ(a, b map[string]string) (names []string) {
	for _, m := range []map[string]string{a, b} {
		for name := range m {
			va, oka := a[name]
			vb, okb := b[name]
			if (oka != okb || va != vb) && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names
}
