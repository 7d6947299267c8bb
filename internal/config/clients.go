package config

import (
	"fmt"
	"io"
	"log/slog"

	"github.com/tuttidb/tutti/internal/hba"
)

// ClientRules reads hba_file. It gives nil if none is configured, and an error with the rules as they were read if
// they cannot be honoured. The warnings are of rules that match nobody.
func (c *Config) ClientRules() (rules *hba.Rules, warnings []string, err error) {
	if c.HBAFile == "" {
		return nil, nil, nil
	}
	rules, err = hba.Load(c.HBAFile)
	if err == nil {
		warnings, err = rules.Check(hba.Capabilities{Trust: c.Postgres.AllowTrust, TLS: c.ClientTLS.Cert != "",
			Verify: c.ClientTLS.CA != ""})
	}
	if err != nil {
		return rules, nil, fmt.Errorf("hba_file: %w", err)
	}
	return rules, warnings, nil
}

// LogHandler writes log records as log_format says. The level may be a slog.LevelVar.
func (c *Config) LogHandler(w io.Writer, level slog.Leveler) slog.Handler {
	o := &slog.HandlerOptions{Level: level}
	if c.LogFormat == "json" {
		return slog.NewJSONHandler(w, o)
	}
	return slog.NewTextHandler(w, o)
}

// clients checks what concerns clients and the log about them.
func (c *Config) clients() error {
	switch c.LogFormat {
	case "text", "json":
	default:
		return fmt.Errorf("log_format is %q: use text or json", c.LogFormat)
	}
	if n := c.Limits.PostgresLogFiles; n < 2 {
		return fmt.Errorf("limits: postgres_log_files is %d: two are the least, the present one and one before it", n)
	}
	return nil
}
