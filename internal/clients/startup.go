package clients

import (
	"strings"

	"github.com/tuttidb/tutti/internal/wire"
)

// Unacceptable says why a start-up packet is not.
func Unacceptable(s *wire.Startup) *wire.SQLError {
	if r := strings.ToLower(s.Params["replication"]); r != "" && r != "false" && r != "off" && r != "no" && r != "0" {
		return wire.Fatalf(wire.CodeFeatureNotSupported, "replication connections are not possible through Tutti").
			WithHint("Connect to the member's own PostgreSQL.")
	}
	if protected(s.Params["options"]) {
		return wire.Fatalf(wire.CodeFeatureNotSupported,
			"start-up options may not change settings replication depends on")
	}
	for _, p := range s.Ordered {
		if p.Name != "options" && protected(p.Name) {
			return wire.Fatalf(wire.CodeFeatureNotSupported, "start-up parameter %s may not be set", p.Name)
		}
	}
	return nil
}

// protected reports whether start-up options or a parameter's name mention what replication
// depends on, in one of the spellings PostgreSQL takes: any case, backslashes before
// characters, hyphens for underscores.
func protected(options string) bool {
	o := strings.NewReplacer(`\`, "", "-", "_").Replace(strings.ToLower(options))
	return strings.Contains(o, "session_replication_role") || strings.Contains(o, "track_counts") ||
		strings.Contains(o, "ignore_system_indexes") || // by whose scans REASSIGN OWNED in a function is known
		strings.Contains(o, "tutti.")
}
