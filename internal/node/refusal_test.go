package node

import (
	"testing"

	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/wire"
)

// TestRefusal: start-up packets cannot set what replication depends on, however spelt.
func TestRefusal(t *testing.T) {
	n := &Node{config: &config.Config{Database: "d"}}
	for _, c := range []struct {
		name, value string
		refused     bool
	}{
		{"options", "-c search_path=a -c work_mem=1MB", false},
		{"application_name", "tutti.x", false},
		{"options", "-c tutti.tx=on", true},
		{"options", "--TUTTI.tx=on", true},
		{"options", `-c tut\ti.tx=on`, true},
		{"options", "--session-replication-role=replica", true},
		{"options", "-c SESSION_replication_role=replica", true},
		{"options", "-c ignore_system_indexes=on", true},
		{"Tutti.tx", "on", true},
		{"Session_Replication_Role", "replica", true},
		{"replication", "database", true},
	} {
		s := &wire.Startup{Params: map[string]string{"database": "d", c.name: c.value},
			Ordered: []wire.Param{{Name: c.name, Value: c.value}}}
		if got := n.refusal(s); (got != nil) != c.refused {
			t.Errorf("%s=%s: %v, want refused %v", c.name, c.value, got, c.refused)
		}
	}
}
