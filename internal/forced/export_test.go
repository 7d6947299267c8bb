package forced

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/standing"
)

// TestExportRefused: there is no report, or it is none, or no log, or no database; or the node runs.
func TestExportRefused(t *testing.T) {
	for _, x := range []struct {
		about, report, want string
		also                func(t *testing.T, c *config.Config)
	}{
		{about: "a report that is none", report: "{}", want: "is not what tutti recover -o json prints"},
		{about: "a report in other words", report: "member b", want: "is not what tutti recover -o json prints"},
		{about: "no log", report: `{"logs": [{"directory": "log"}]}`, want: "only a member that has one can go on",
			also: func(t *testing.T, c *config.Config) {
				if err := os.RemoveAll(filepath.Join(c.DataDir, "log")); err != nil {
					t.Fatal(err)
				}
			}},
		{about: "it runs", want: "The node must not run", also: func(t *testing.T, c *config.Config) {
			disk, err := standing.OpenLog(filepath.Join(c.DataDir, "log"), c, nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { disk.Close() })
		}},
		{about: "no database", want: "look at "},
	} {
		t.Run(x.about, func(t *testing.T) {
			file, c := node(t, closed(t), "log", "log-7")
			if x.also != nil {
				x.also(t, c)
			}
			o := ExportOptions{Config: file}
			if x.report != "" {
				o.Behind = filepath.Join(t.TempDir(), "report")
				if err := os.WriteFile(o.Behind, []byte(x.report), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			var out strings.Builder
			if err := Export(context.Background(), o, &out); err == nil || !strings.Contains(err.Error(), x.want) {
				t.Errorf("%v, not %q", err, x.want)
			}
			if out.Len() > 0 {
				t.Errorf("it prints %s", out.String())
			}
		})
	}
}
