package cluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// passwordSteps are README's about passwords: the statements of step 2, and the lines of step 3.
func passwordSteps(t *testing.T) (statements []string, lines string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(b), "**Passwords.**")
	section, _, ok := strings.Cut(section, "From then on")
	if !ok {
		t.Fatal("README has no steps about passwords")
	}
	for _, m := range regexp.MustCompile("`(CREATE ROLE [^`]*|\\\\password [^`]+)`").FindAllStringSubmatch(section,
		-1) {
		statement := m[1]
		if role, ok := strings.CutPrefix(statement, `\password `); ok { // psql asks for it, and makes a verifier
			statement = "ALTER ROLE " + role + " PASSWORD '" + verifier + "'"
		}
		statements = append(statements, statement)
	}
	for line := range strings.Lines(section) {
		if strings.HasPrefix(line, "       local ") {
			lines += strings.TrimSpace(line) + "\n"
		}
	}
	if len(statements) < 4 || strings.Count(lines, "\n") < 2 {
		t.Fatalf("README's steps are %q and\n%s", statements, lines)
	}
	return statements, lines
}

// verifier is that of the password "secret".
const verifier = "SCRAM-SHA-256$4096:c2l4dGVlbiBieXRlcyBpdA==$Rby+BBFwBuPJWW6eE4shy4lPvqKfbLSFCpIsqlFHZ28=:Et4rMfs5YNnnuxMTDppIYsUXiLt4m1x3YMUxxcQGN4g="

// login connects to node k with these words of a connection string, and runs a query.
func (c *Cluster) login(k int, words, query string) (string, error) {
	host, port, _ := strings.Cut(c.Node(k).Config.Listen, ":")
	pg, err := pgconn.Connect(context.Background(),
		fmt.Sprintf("host=%s port=%s dbname=postgres sslmode=disable connect_timeout=20 %s", host, port, words))
	if err != nil {
		return "", err
	}
	defer pg.Close(context.Background())
	r, err := pg.Exec(context.Background(), query).ReadAll()
	if err != nil || len(r) == 0 || len(r[0].Rows) == 0 {
		return "", err
	}
	return string(r[0].Rows[0][0]), nil
}

// lock does step 3 at node k.
func (c *Cluster) lock(k int, lines string) {
	c.tb.Helper()
	n := c.Node(k)
	if err := os.WriteFile(filepath.Join(n.Config.DataDir, "postgres", "pg_hba.conf"), []byte(lines),
		0o600); err != nil {
		c.tb.Fatal(err)
	}
	n.Config.Postgres.AllowTrust = false
	if err := n.WriteConfig(); err != nil {
		c.tb.Fatal(err)
	}
	if c.Running(k) {
		c.Stop(k)
	}
	c.Run(k)
}

// awaitLogin waits until a login as admin ends with this SQLSTATE; empty: until it succeeds.
func (c *Cluster) awaitLogin(k int, code string) {
	c.tb.Helper()
	c.await(k, readyTimeout, func(context.Context) error {
		if _, err := c.login(k, "user=admin password=secret", "SELECT 1"); Code(err) != code ||
			code == "" && err != nil {
			return fmt.Errorf("login: %w, want %q", err, code)
		}
		return nil
	})
}

// TestPasswordSteps follows README's steps to a cluster with passwords by its words: afterwards a superuser can log
// in, nobody comes in without a password, and a member can be cloned.
func TestPasswordSteps(t *testing.T) {
	t.Parallel() // mostly it waits
	statements, lines := passwordSteps(t)
	c := Start(t, 2)
	s := c.Connect(1)
	for _, statement := range statements {
		s.Do(statement)
	}
	c.Settled()
	for k := range c.Size() {
		c.lock(k+1, lines)
	}
	for k := 1; k <= c.Size(); k++ {
		c.awaitLogin(k, "")
		if got, err := c.login(k, "user=admin password=secret", "SHOW is_superuser"); err != nil || got != "on" {
			t.Errorf("admin at node %d: superuser %s, %v", k, got, err)
		}
		if got, err := c.login(k, "user=app password=secret", "SHOW is_superuser"); err != nil || got != "off" {
			t.Errorf("app at node %d: superuser %s, %v", k, got, err)
		}
		for words, want := range map[string]string{"user=admin password=wrong": "28P01",
			"user=app password=wrong": "28P01",
			"user=postgres":           "28000", "user=postgres password=secret": "28000",
			"user=nobody password=secret": "28P01"} {
			if _, err := c.login(k, words, "SELECT 1"); Code(err) != want {
				t.Errorf("%s at node %d: %v, want %s", words, k, err, want)
			}
		}
	}
	exe, err := Binary()
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"status", "check"} {
		c.await(1, readyTimeout, func(ctx context.Context) error { // members hear of each other a moment later
			run := exec.CommandContext(ctx, exe, command, "--config", c.Node(1).ConfigFile, "-U", "admin")
			run.Env = append(os.Environ(), "PGPASSWORD=secret")
			if out, err := run.CombinedOutput(); err != nil {
				return fmt.Errorf("tutti %s -U admin: %w\n%s", command, err, out)
			}
			return nil
		})
	}
	// Node 2 is brought back as docs/LIMITS.md has it: its database goes, its log stays, and it is cloned from node 1.
	c.Stop(2)
	if err := os.RemoveAll(filepath.Join(c.Node(2).Config.DataDir, "postgres")); err != nil {
		t.Fatal(err)
	}
	c.Run(2)
	c.awaitLogin(2, "28000") // it is there, and its pg_hba.conf asks for no password
	c.lock(2, lines)
	c.awaitLogin(2, "")
	if _, err := c.login(1, "user=admin password=secret", "CREATE TABLE after_all(k int PRIMARY KEY)"); err != nil {
		t.Error(err)
	}
}
