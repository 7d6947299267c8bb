package chaos

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/tuttidb/tutti/internal/process"
)

// diagnose writes down what a stuck cluster is doing: each node's own view, its PostgreSQL's
// sessions, and its goroutines, which end the process and so come last.
func (c *cluster) diagnose(ctx context.Context) {
	for _, n := range c.nodes {
		var b strings.Builder
		socket := fmt.Sprintf("host=%s.run user=postgres dbname=postgres", filepath.Join(n.config.DataDir, "postgres"))
		for _, q := range []struct {
			url  string
			dial dialer
			sql  string
		}{
			{c.url(n.k), c.net.dial, "SHOW tutti.status"},
			{c.url(n.k), c.net.dial, "SHOW tutti.counters"},
			{socket, nil, "SELECT pid, state, wait_event_type, wait_event, now() - xact_start, now() - state_change, " +
				"pg_blocking_pids(pid), query FROM pg_stat_activity"},
		} {
			rows, err := ask(ctx, q.url, q.dial, q.sql, 2*time.Second)
			fmt.Fprintf(&b, "%s: %v\n", q.sql, err)
			for _, row := range rows {
				fmt.Fprintln(&b, " ", strings.Join(row, " | "))
			}
		}
		path := filepath.Join(c.o.Dir, n.name()+".diagnosis")
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			c.say("%v", err)
		}
	}
	for _, n := range c.nodes {
		n.hold()
		n.signal(syscall.SIGQUIT)
	}
	for _, n := range c.nodes {
		_ = n.gone(stopTimeout) // it is stopped for good later
		c.say("%s: diagnosis in %s.diagnosis, goroutines at the end of its log; before: %s", n.name(), n.name(),
			process.Tail(filepath.Join(c.o.Dir, n.name()+".diagnosis"), 1))
	}
}
