package config

import (
	"strings"
	"testing"
)

// TestAdminPort: it is off unless configured, and must be an address that no other port of the node has.
func TestAdminPort(t *testing.T) {
	for _, c := range []struct{ listen, want string }{
		{"", ""},
		{"127.0.0.1:9432", ""},
		{":9432", ""},
		{"9432", "not host:port"},
		{"a:1", "the same as listen"},
		{"a:2", "the same as member_listen"},
	} {
		cfg := Config{Listen: "a:1", MemberListen: "a:2", Admin: Admin{Listen: c.listen}}
		err := cfg.validateAdmin()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.listen, err, c.want)
		}
	}
	if got := Diff(&Config{}, &Config{Admin: Admin{Listen: ":1"}}); len(got) != 1 || got[0] != "admin.listen" {
		t.Errorf("a reload names it %q", got)
	}
}
