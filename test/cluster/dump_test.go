package cluster

import (
	"os/exec"
	"strings"
	"testing"
)

// TestDumpThroughANode: pg_dump and psql's \d, asked through a node, say nothing of Tutti.
func TestDumpThroughANode(t *testing.T) {
	c := use(t)
	for _, name := range []string{"pg_dump", "psql"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("%s is not installed", name)
		}
	}
	c.Connect(1).Do("CREATE TABLE dumped(k int PRIMARY KEY, v text)", "INSERT INTO dumped VALUES (1, 'kept')")
	c.Everywhere("SELECT v FROM dumped", "kept")
	for _, args := range [][]string{{"pg_dump", "--dbname", c.URL(2)},
		{"psql", "-X", "-c", `\d dumped`, "-d", c.URL(2)}} {
		cmd := exec.Command(args[0], args[1:]...)
		var errs strings.Builder
		cmd.Stderr = &errs
		out, err := cmd.Output()
		if err != nil || !strings.Contains(string(out), "dumped") {
			t.Fatalf("%v: %v\n%s", args, err, errs.String())
		}
		for _, line := range strings.Split(string(out), "\n") {
			if strings.Contains(strings.ToLower(line), "tutti") {
				t.Errorf("%s says %q", args[0], line)
			}
		}
	}
	if code := Code(c.Connect(3).Try("DROP SCHEMA tutti CASCADE")); code == "" {
		t.Error("schema tutti could be dropped")
	}
	c.Check()
}
