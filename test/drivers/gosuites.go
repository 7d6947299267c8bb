package drivers

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// goModule fetches a module and gives a copy that tests may write to.
func goModule(path, version string) func(context.Context, string) (string, error) {
	return func(ctx context.Context, cache string) (string, error) {
		dir := filepath.Join(cache, filepath.Base(filepath.Dir(path))+"-"+filepath.Base(path)+"-"+version)
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		c := exec.CommandContext(ctx, "go", "mod", "download", "-json", path+"@"+version)
		c.Dir = cache // outside of any module
		out, err := c.Output()
		var got struct{ Dir, Error string }
		if jerr := json.Unmarshal(out, &got); jerr != nil || got.Dir == "" {
			return "", fmt.Errorf("go mod download %s@%s: %v %s", path, version, err, got.Error)
		}
		part := dir + ".part"
		if err := os.RemoveAll(part); err != nil {
			return "", err
		}
		if err := os.CopyFS(part, os.DirFS(got.Dir)); err != nil {
			return "", err
		}
		if out, err := exec.CommandContext(ctx, "chmod", "-R", "u+w", part).CombinedOutput(); err != nil {
			return "", fmt.Errorf("%w: %s", err, out)
		}
		return dir, os.Rename(part, dir)
	}
}

// goTest is the command of a module's own tests, one package at a time: the packages of a
// driver share tables.
func goTest(env func(a *Arm) []string) func(a *Arm, dir string) (argv, e []string) {
	return func(a *Arm, _ string) ([]string, []string) {
		return []string{"go", "test", "-json", "-count=1", "-p=1", "-timeout=15m"},
			append(env(a), "GOFLAGS=-mod=mod", "GOTOOLCHAIN=local")
	}
}

// pgxSuite is jackc/pgx. Its setup is what testsetup asks for, without roles for TLS.
func pgxSuite() Suite {
	const password = "secret"
	return Suite{
		Name: "pgx", What: "github.com/jackc/pgx/v5 v5.12.0, go test ./...", Limit: 20 * time.Minute,
		Parts: []string{"./..."},
		Setup: []string{
			"CREATE EXTENSION hstore", "CREATE EXTENSION ltree", "CREATE DOMAIN uint64 AS numeric(20,0)",
			createRole("pgx_md5", oldVerifier("pgx_md5", password), "SUPERUSER"),
			createRole("pgx_scram", scram(password), "SUPERUSER"),
			createRole("pgx_pw", scram(password), "SUPERUSER"),
			createRole(` tricky, ' } " \ test user `, scram(password), "SUPERUSER"),
		},
		Logins: []string{"all pgx_md5 md5", "all pgx_scram scram-sha-256", "all pgx_pw password"},
		fetch:  goModule("github.com/jackc/pgx/v5", "v5.12.0"),
		command: goTest(func(a *Arm) []string {
			login := func(what, user string) string {
				return fmt.Sprintf("PGX_TEST_%s_CONN_STRING=%s", what, a.URL(user+":"+password, ""))
			}
			return []string{
				"PGX_TEST_DATABASE=" + a.Keywords(), "PGX_TEST_TCP_CONN_STRING=" + a.Keywords(),
				login("MD5_PASSWORD", "pgx_md5"), login("SCRAM_PASSWORD", "pgx_scram"),
				login("PLAIN_PASSWORD", "pgx_pw"),
			}
		}),
		parse: parseGo,
	}
}

// pqSuite is lib/pq.
func pqSuite() Suite {
	const password = "wordpass"
	return Suite{
		Name: "pq", What: "github.com/lib/pq v1.12.3, go test ./...", Limit: 20 * time.Minute, Parts: []string{"./..."},
		Setup: []string{
			"CREATE EXTENSION hstore", "CREATE ROLE pqgossl LOGIN", "CREATE ROLE pqgosslcert LOGIN",
			createRole("pqgomd5", oldVerifier("pqgomd5", password), ""), createRole("pqgoscram", scram(password), ""),
			createRole("pqgopassword", scram(password), ""),
		},
		Logins: []string{"all pqgomd5 md5", "all pqgoscram scram-sha-256", "all pqgopassword password"},
		fetch:  goModule("github.com/lib/pq", "v1.12.3"), command: goTest(func(*Arm) []string { return nil }),
		parse: parseGo,
	}
}
