package node

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tuttidb/tutti/internal/config"
)

// TestCheckConfig: what is wrong with the files that a configuration names is said, all of it.
func TestCheckConfig(t *testing.T) {
	c := &config.Config{Member: 1, SecretFile: filepath.Join(t.TempDir(), "secret"),
		Members: []config.Member{{Member: 1, Name: "alpha"}}}
	c.Postgres.BinDir = "/nonexistent"
	err := CheckConfig(c)
	if err == nil || !strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "bin_dir") {
		t.Errorf("without the files: %v", err)
	}
	c.Postgres.BinDir = ""
	if err := os.WriteFile(c.SecretFile, []byte("the first secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := CheckConfig(c); err != nil {
		t.Error(err)
	}
}
