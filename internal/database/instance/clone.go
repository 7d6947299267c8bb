package instance

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tuttidb/tutti/internal/database/embedded"
	"github.com/tuttidb/tutti/internal/database/embedded/untar"
)

// maxCloneEntries bounds the files of a clone. PostgreSQL splits tables into 1 GB files.
const maxCloneEntries = 50_000_000

// notCloned are files of the donor that must not become the clone's (I5): its running state
// and its configuration, which the clone gets anew.
var notCloned = map[string]bool{
	"postmaster.pid":       true,
	"postmaster.opts":      true,
	"standby.signal":       true,
	"recovery.signal":      true,
	"postgresql.conf":      true,
	"postgresql.auto.conf": true,
	"pg_hba.conf":          true,
	"pg_ident.conf":        true,
	confName:               true,
	"current_logfiles":     true,
}

// inherited are the settings whose values change what statements mean: a clone takes the
// donor's, so that the same statement gives the same result on both.
var inherited = []string{
	"datestyle", "intervalstyle", "timezone", "default_text_search_config", "lc_messages",
	"lc_monetary", "lc_numeric", "lc_time", "bytea_output", "extra_float_digits",
}

// Clone fills the data directory with a base backup of a running server, over the
// replication protocol. The donor is not blocked; it needs a free max_wal_senders slot and a
// user with REPLICATION. progress, if set, is called with the bytes received so far. The
// clone is an independent server from its first Start on. It has every transaction that was
// committed before the backup ended, asynchronous commits included: the end of the backup
// flushes them. ErrInitialized if there is anything in the directory already.
func (i *Instance) Clone(ctx context.Context, donorConnString string, progress func(bytes int64)) error {
	cfg, err := pgconn.ParseConfig(donorConnString)
	if err != nil {
		return fmt.Errorf("clone: donor: %w", err)
	}
	return i.CloneFrom(ctx, cfg, progress)
}

// CloneFrom is Clone with a parsed configuration, which may hold a DialFunc that tunnels to
// the donor (see Through). cfg is not changed.
func (i *Instance) CloneFrom(ctx context.Context, cfg *pgconn.Config, progress func(bytes int64)) error {
	return i.create(".clone", false, fillFrom(ctx, i, cfg, progress))
}

// fillFrom fills an empty directory with a base backup.
func fillFrom(ctx context.Context, i *Instance, cfg *pgconn.Config, progress func(int64)) func(string, *account) error {
	return func(work string, a *account) error {
		c := &cloning{Instance: i, work: work, account: a, progress: progress}
		if err := c.receive(ctx, cfg); err != nil {
			return fmt.Errorf("clone of %s:%d: %w", cfg.Host, cfg.Port, err)
		}
		return nil
	}
}

// cloning is a base backup that is received into a directory.
type cloning struct {
	*Instance
	work     string
	account  *account
	progress func(int64)
}

func (c *cloning) receive(ctx context.Context, cfg *pgconn.Config) error {
	cfg = cfg.Copy()
	cfg.RuntimeParams["replication"] = "true"
	conn, err := pgconn.ConnectConfig(ctx, cfg)
	if err != nil {
		return err
	}
	// Cancelled or failed half-way, the connection is cut: nothing is left to say.
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()

	version := conn.ParameterStatus("server_version")
	if major, _, _ := strings.Cut(strings.Fields(version + " ")[0], "."); major != strconv.Itoa(c.o.Build.Major) {
		if err := c.useDonors(major, version); err != nil {
			return err
		}
	}
	settings, err := donorSettings(ctx, conn)
	if err != nil {
		return err
	}
	c.reserveWAL(ctx, conn)
	if err := c.unpackBackup(ctx, conn); err != nil {
		return err
	}
	hba := hbaTrust
	if adopted, err := Adopted(c.work); err != nil {
		return err
	} else if adopted {
		hba = hbaWithPasswords
	}
	return configureClone(c.work, settings, hba, c.account)
}

// useDonors finds binaries of the donor's major version instead.
func (c *cloning) useDonors(major, version string) error {
	refused := embedded.Setupf("the donor is PostgreSQL %s, the binaries here are %s: "+
		"a clone needs the same major version", version, c.o.Build.Version)
	n, err := strconv.Atoi(major)
	if err != nil || c.o.Find == nil {
		return refused
	}
	b, err := c.o.Find(n)
	if err != nil {
		return fmt.Errorf("%w: %w", refused, err)
	}
	c.mu.Lock()
	c.o.Build = b
	c.mu.Unlock()
	return nil
}

// Build is the binaries that are used.
func (i *Instance) Build() embedded.Build {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.o.Build
}

// donorSettings reads the inherited settings.
func donorSettings(ctx context.Context, conn *pgconn.PgConn) (map[string]string, error) {
	m := make(map[string]string)
	for _, name := range inherited {
		rs, err := conn.Exec(ctx, "SHOW "+name).ReadAll()
		if err != nil || len(rs) != 1 || len(rs[0].Rows) != 1 {
			return nil, fmt.Errorf("reading the donor's setting %s: %w", name, err)
		}
		// A locale that nobody has set is shown as nothing, which cannot be set.
		if value := string(rs[0].Rows[0][0]); value != "" {
			m[name] = value
		}
	}
	return m, nil
}

// reserveWAL keeps the donor from recycling WAL that the backup will need at its end: a
// temporary slot, which goes with the connection. Without it (no free slot) only a long
// backup of a busy donor fails, and says so.
func (c *cloning) reserveWAL(ctx context.Context, conn *pgconn.PgConn) {
	sql := "CREATE_REPLICATION_SLOT tutti_clone_" + strings.ToLower(rand.Text()[:12]) +
		" TEMPORARY PHYSICAL RESERVE_WAL"
	if _, err := conn.Exec(ctx, sql).ReadAll(); err != nil {
		c.log.Warn("cloning without a replication slot", "err", err)
	}
}

func (c *cloning) unpackBackup(ctx context.Context, conn *pgconn.PgConn) error {
	start, err := pglogrepl.StartBaseBackup(ctx, conn, pglogrepl.BaseBackupOptions{
		Label: "tutti clone", Fast: true, WAL: true, NoWait: true,
	})
	if err != nil {
		return err
	}
	if n := len(start.Tablespaces); n > 0 {
		return fmt.Errorf("the donor has %d tablespaces (first: %s): move their tables to pg_default, tablespaces "+
			"are not cloned",
			n, start.Tablespaces[0].Location)
	}
	if err := pglogrepl.NextTableSpace(ctx, conn); err != nil {
		return err
	}
	s := &backupStream{ctx: ctx, receive: conn.ReceiveMessage, progress: c.progress}
	for {
		name, err := s.nextArchive()
		if err != nil {
			return err
		}
		if name == "" {
			break
		}
		err = untar.Extract(s, c.work, untar.Options{
			MaxBytes: math.MaxInt64, MaxEntries: maxCloneEntries,
			DirMode: 0o700, FileMode: 0o600,
			Skip:    skipCloned,
			Created: c.account.chownIn,
		})
		if err != nil {
			return err
		}
	}
	end, err := pglogrepl.FinishBaseBackup(ctx, conn)
	if err != nil {
		return fmt.Errorf("the donor did not complete the backup: %w", err)
	}
	for _, f := range []string{"PG_VERSION", "backup_label", "global/pg_control"} {
		if _, err := os.Stat(filepath.Join(c.work, f)); err != nil {
			return fmt.Errorf("the backup is incomplete: %w", err)
		}
	}
	c.log.Info("base backup received", "bytes", s.bytes, "from", start.LSN, "to", end.LSN)
	return nil
}

// skipCloned is notCloned at the top, and the donor's logs.
func skipCloned(name string) bool {
	dir := path.Dir(name)
	return dir == "." && notCloned[name] || dir == "log" || dir == "pg_log"
}

// Who may use the socket of a server that initdb has not made. One that was adopted, and copies of it, have roles with
// passwords, SCRAM verifiers or of MD5: clients are asked for them.
const (
	hbaTrust = "# Written by Tutti: the unix socket's permissions are the access control.\n" +
		"local all all trust\nlocal replication all trust\n"
	hbaWithPasswords = "# Written by Tutti: postgres is Tutti itself; others have the passwords that they had.\n" +
		"local all postgres trust\nlocal replication postgres trust\nlocal all all md5\n"
)

// configureClone writes a configuration of a clone's own.
func configureClone(work string, settings map[string]string, hba string, a *account) error {
	conf := append([]byte("# The donor's values when this server was cloned.\n"), render(settings)...)
	return errors.Join(
		writeFile(filepath.Join(work, "postgresql.conf"), append(conf, includeLine+"\n"...), a),
		writeFile(filepath.Join(work, "postgresql.auto.conf"), nil, a),
		writeFile(filepath.Join(work, "pg_hba.conf"), []byte(hba), a),
		writeFile(filepath.Join(work, "pg_ident.conf"), nil, a),
	)
}
