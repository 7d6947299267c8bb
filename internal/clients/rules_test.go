package clients

import (
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/wire"
)

// TestRulesReload: rules can be read anew on request, and taken away; what cannot be used leaves them as they were.
func TestRulesReload(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hba")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	n := NewRules(RuleOptions{Config: &config.Config{HBAFile: path}, Log: slog.New(slog.DiscardHandler),
		AllowTrust: func() bool { return false }})
	startup := &wire.Startup{Params: map[string]string{"user": "ann"}, Deadline: time.Now().Add(time.Minute)}
	verdict := func() string {
		t.Helper()
		c := &Client{Address: netip.MustParseAddrPort("10.0.0.1:5")}
		c.Says(startup.Params)
		o, e := n.Admission(t.Context(), c, startup)
		if e != nil {
			return e.Message
		}
		return o.Require.String()
	}
	const rejected = `pg_hba.conf rejects connection for host "10.0.0.1", user "ann", database "ann", no encryption`
	for _, step := range []struct {
		text   string
		usable bool
		want   string
	}{
		{"host all all all scram-sha-256\n", true, "scram-sha-256"},
		{"host all all all reject\n", true, rejected},
		{"host all all all trust\n", false, rejected}, // allow_trust is off
		{"", true, `no pg_hba.conf entry for host "10.0.0.1", user "ann", database "ann", no encryption`},
		{"host all all all md5\n", true, "md5"},
	} {
		write(step.text)
		if err := n.Load(); (err == nil) != step.usable {
			t.Errorf("%q: %v", step.text, err)
		}
		if got := verdict(); got != step.want {
			t.Errorf("%q: %s, want %s", step.text, got, step.want)
		}
	}
	write("host all all all reject\n")
	if got := verdict(); got != rejected {
		t.Errorf("a file that has changed: %s", got)
	}
	write("host all all all scram-sha-256") // its end may be missing
	if got := verdict(); got != rejected {
		t.Errorf("half a file: %s", got)
	}
	n.o.Config.HBAFile = ""
	write("host all all all md5\n")
	if err := n.Load(); err != nil || verdict() != "trust" {
		t.Errorf("without hba_file: %v, %s", err, verdict())
	}
	write("host all all +staff reject\n")
	n.o.Config.HBAFile = path
	if err := n.Load(); err != nil {
		t.Fatal(err)
	}
	if got := verdict(); got == "trust" || got == "scram-sha-256" { // there is no server to be asked
		t.Errorf("a role that nobody knows: %s", got)
	}
}
