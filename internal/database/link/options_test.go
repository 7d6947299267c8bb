package link

import (
	"strings"
	"testing"
)

// TestOwnOptions: a setting is given to versions that know it only; others refuse the connection.
func TestOwnOptions(t *testing.T) {
	for major, want := range map[int]bool{15: false, 16: false, 17: true, 18: true} {
		o := OwnOptions(major)
		if strings.Contains(o, "transaction_timeout=0'") != want || strings.Count(o, "'") != 2 {
			t.Errorf("PostgreSQL %d is given%s", major, o)
		}
	}
}
