package lint

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/tuttidb/tutti/internal/config"
)

// keys lists every key a configuration file may have.
func keys(t reflect.Type) (out []string) {
	switch t.Kind() {
	case reflect.Slice:
		return keys(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if name := t.Field(i).Tag.Get("toml"); name != "-" { // "-": no file has it
				out = append(out, name)
			}
			out = append(out, keys(t.Field(i).Type)...)
		}
	}
	return out
}

// example loads the first configuration that a page shows.
func example(t *testing.T, page string) (text string, c *config.Config) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root(), filepath.FromSlash(page)))
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ = strings.Cut(string(b), "```toml\n")
	text, _, ok := strings.Cut(text, "```")
	if !ok {
		t.Fatalf("%s shows no configuration", page)
	}
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, []byte("sixteen characters\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "node.toml")
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(text, "/etc/tutti/secret", secret)), 0o600); err != nil {
		t.Fatal(err)
	}
	if c, err = config.Load(path); err != nil {
		t.Fatalf("%s: %v", page, err)
	}
	return text, c
}

// TestReadmeConfiguration: what the README shows is a configuration.
func TestReadmeConfiguration(t *testing.T) {
	if _, c := example(t, "README.md"); len(c.Members) != 3 || c.Postgres.AllowTrust {
		t.Errorf("the README shows another cluster than it tells of: %+v", c)
	}
}

// TestSettings: the page of settings names every key, and shows the defaults.
func TestSettings(t *testing.T) {
	text, shown := example(t, "docs/SETTINGS.md")
	for _, k := range keys(reflect.TypeFor[config.Config]()) {
		if !regexp.MustCompile(`(?m)^(\[+(\w+\.)*)?` + k + `\b`).MatchString(text) {
			t.Errorf("docs/SETTINGS.md does not show %s", k)
		}
	}
	bare := &config.Config{
		Cluster: shown.Cluster, Member: shown.Member, DataDir: shown.DataDir,
		Listen: shown.Listen, MemberListen: shown.MemberListen, Secret: shown.Secret, SecretFile: shown.SecretFile,
		LogLevel: shown.LogLevel, Members: shown.Members, Postgres: shown.Postgres,
	}
	if err := bare.Validate(); err != nil {
		t.Fatal(err)
	}
	if d := config.Diff(shown, bare); len(d) > 0 {
		t.Errorf("docs/SETTINGS.md shows other values than the defaults: %v", d)
	}
}
