package embedded

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDataDirectorysVersion: binaries of the data directory's version are used, whatever else is installed beside
// them, and no others.
func TestDataDirectorysVersion(t *testing.T) {
	d, data := t.TempDir(), t.TempDir()
	for _, v := range []string{"15.9", "15.18", "16.3", "17.2"} {
		fakeInstall(t, filepath.Join(d, v, "bin"), v)
	}
	holds := func(text string) {
		if err := os.WriteFile(filepath.Join(data, versionFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	o := Options{system: []string{filepath.Join(d, "*", "bin")}, NoDownload: true, CacheDir: t.TempDir(), DataDir: data}
	for _, c := range []struct{ holds, want, says string }{
		{"", "17.2", ""}, // it is empty
		{"15\n", "15.18", ""},
		{"16\n", "16.3", ""},
		{"18\n", "", "is of PostgreSQL 18, and this machine has no binaries of that version (found: PostgreSQL 15.18"},
		{"14\n", "", "is of PostgreSQL 14: Tutti needs 15 or later"},
		{"many\n", "", `holds "many", which is no version`},
		{"\n", "", `holds "", which is no version`},
	} {
		if c.holds != "" {
			holds(c.holds)
		}
		b, err := Find(o)
		var setup *SetupError
		switch {
		case c.says == "" && (err != nil || b.Version != c.want):
			t.Errorf("%q: %v, %v", c.holds, b, err)
		case c.says != "" && (!errors.As(err, &setup) || !strings.Contains(err.Error(), c.says)):
			t.Errorf("%q: %v, %v, want %q", c.holds, b, err, c.says)
		}
	}
	holds("15\n")
	explicit := o
	explicit.BinDir = filepath.Join(d, "17.2", "bin")
	if _, err := Find(explicit); err == nil || !strings.Contains(err.Error(), "is of PostgreSQL 15") {
		t.Errorf("binaries of another version were named: %v", err)
	}
	explicit.BinDir = filepath.Join(d, "15.9", "bin")
	if b, err := Find(explicit); err != nil || b.Version != "15.9" {
		t.Errorf("%v, %v", b, err)
	}
	// The pinned build is of one version, and is not fetched for another.
	none := Options{NoSystem: true, CacheDir: t.TempDir(), DataDir: data, artifact: &artifact{platform: "none"}}
	if _, err := Find(none); err == nil || !strings.Contains(err.Error(), "is of PostgreSQL 15") {
		t.Errorf("the pinned build for an older directory: %v", err)
	}
	if err := os.Rename(filepath.Join(data, versionFile), filepath.Join(data, "global")); err != nil {
		t.Fatal(err)
	}
	if _, err := Find(o); err == nil || !strings.Contains(err.Error(), "has no file PG_VERSION") {
		t.Errorf("a directory without version: %v", err)
	}
	if b, err := Find(Options{system: o.system, NoDownload: true, Major: 16}); err != nil || b.Version != "16.3" {
		t.Errorf("a version that was asked for: %v, %v", b, err)
	}
}
