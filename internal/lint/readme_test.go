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
			out = append(out, t.Field(i).Tag.Get("toml"))
			out = append(out, keys(t.Field(i).Type)...)
		}
	}
	return out
}

// TestReadmeConfiguration loads the example of the README, which must name every key.
func TestReadmeConfiguration(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(root(), "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, example, _ := strings.Cut(string(b), "```toml\n")
	example, _, ok := strings.Cut(example, "```")
	if !ok {
		t.Fatal("the README shows no configuration")
	}
	for _, k := range keys(reflect.TypeFor[config.Config]()) {
		if !regexp.MustCompile(`(?m)^(\[+(\w+\.)*)?` + k + `\b`).MatchString(example) {
			t.Errorf("the README's configuration does not show %s", k)
		}
	}
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, []byte("sixteen characters\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "node.toml")
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(example, "/etc/tutti/secret", secret)), 0o600); err != nil {
		t.Fatal(err)
	}
	shown, err := config.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	bare := &config.Config{
		Cluster: shown.Cluster, Member: shown.Member, DataDir: shown.DataDir, Listen: shown.Listen, MemberListen: shown.MemberListen,
		Secret: shown.Secret, SecretFile: shown.SecretFile, LogLevel: shown.LogLevel, Members: shown.Members, Postgres: shown.Postgres,
	}
	if err := bare.Validate(); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(shown, bare) {
		t.Errorf("the README shows other values than the defaults:\n%+v\n%+v", shown, bare)
	}
}
