package config

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestClientRules: hba_file is looked for beside the configuration, and read with what the rest of it allows.
func TestClientRules(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const head = `cluster = "c"
member = 1
data_dir = "d"
listen = "h:1"
member_listen = "h:2"
secret = "sixteen characters"
hba_file = "clients"
`
	const tail = "[[members]]\nmember = 1\nname = \"a\"\naddress = \"h:2\"\n"
	for _, c := range []struct{ rules, more, want string }{
		{"host all all all scram-sha-256\n", "", ""},
		{"host all all all trust\n", "", "line 1: trust needs allow_trust"},
		{"host all all all trust\n", "[postgres]\nallow_trust = true\n", ""},
		{"hostssl all all all cert\n", "[client_tls]\ncert = \"c\"\nkey = \"k\"\n", "certificates of clients need ca"},
		{"hostssl all all all cert\n", "[client_tls]\ncert = \"c\"\nkey = \"k\"\nca = \"a\"\n", ""},
		{"host all all all\n", "", "line 1: end-of-line before authentication method"},
	} {
		write("clients", c.rules)
		write("node.toml", head+tail+c.more)
		conf, err := Load(filepath.Join(dir, "node.toml"))
		if err != nil {
			t.Fatal(err)
		}
		rules, _, err := conf.ClientRules()
		if rules == nil || c.want == "" && err != nil ||
			c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%q with %q: %v, want %q", c.rules, c.more, err, c.want)
		}
	}
	conf := valid()
	if rules, _, err := conf.ClientRules(); rules != nil || err != nil {
		t.Errorf("without hba_file: %v, %v", rules, err)
	}
}

// TestLogFormat: text or JSON, and nothing else; levels count.
func TestLogFormat(t *testing.T) {
	for format, text := range map[string]bool{"": true, "text": true, "json": false} {
		conf := valid()
		conf.LogFormat = format
		if err := conf.Validate(); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		log := slog.New(conf.LogHandler(&out, slog.LevelInfo))
		log.Debug("unsaid")
		log.Info("said", "k", "v")
		isJSON := json.Unmarshal(out.Bytes(), &map[string]any{}) == nil
		if isJSON == text || text && !strings.HasSuffix(out.String(), "level=INFO msg=said k=v\n") {
			t.Errorf("%q: %s", format, out.String())
		}
	}
	conf := valid()
	conf.LogFormat = "xml"
	if err := conf.Validate(); err == nil || !strings.Contains(err.Error(), "log_format") {
		t.Error(err)
	}
	for files, want := range map[int]string{0: "", 2: "", 1: "postgres_log_files is 1",
		-3: "postgres_log_files is -3"} {
		conf := valid()
		conf.Limits.PostgresLogFiles = files
		if err := conf.Validate(); want == "" && err != nil ||
			want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%d: %v", files, err)
		}
	}
}
