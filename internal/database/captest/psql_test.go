package captest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tuttidb/tutti/internal/capture"
	"github.com/tuttidb/tutti/internal/database/catalog"
	"github.com/tuttidb/tutti/internal/pgtest"
)

// TestSchemaByPsql: what is installed is a script that psql takes, so that it can be tried, and changed, by hand.
// It comes to what a start installs.
func TestSchemaByPsql(t *testing.T) {
	psql, err := exec.LookPath("psql")
	if err != nil {
		t.Skip("there is no psql here")
	}
	s := pgtest.Shared(t)
	db := s.NewDatabase(t)
	file := filepath.Join(t.TempDir(), "schema.sql")
	script := "SET backtrace_functions = 'tutti_own'; SET check_function_bodies = off;\n" +
		"SET search_path = pg_catalog;\n" +
		"BEGIN;\n" + capture.Schema() + ";\nCOMMIT;\n"
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	command := exec.Command(psql, "-X", "-q", "-h", s.SocketDir(), "-p", strconv.Itoa(s.Port()), "-U", "postgres",
		"-d", db, "-v", "ON_ERROR_STOP=1", "-c", "\\i "+file)
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%.2000s", err, out)
	}
	conn := s.Connect(t, db)
	var functions, there int
	err = pgx.BeginFunc(context.Background(), conn, func(tx pgx.Tx) error {
		count := "SELECT count(*) FROM pg_proc WHERE pronamespace = 'tutti'::regnamespace"
		if err := tx.QueryRow(ctx, count).Scan(&functions); err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, capture.InstalledQuery()).Scan(new(bool)); err != nil {
			return err
		}
		if err := catalog.Install(ctx, tx); err != nil {
			return err
		}
		return tx.QueryRow(ctx, count).Scan(&there)
	})
	if err != nil || functions == 0 || functions != there {
		t.Errorf("psql has made %d functions, there are %d: %v", functions, there, err)
	}
}
