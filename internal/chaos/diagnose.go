package chaos

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// logLines is how much of a stuck node's log is shown, without what it says of clients.
const logLines = 12

// diagnose writes down what a stuck cluster is doing: each node's own view, its PostgreSQL's
// sessions, and its goroutines, which end the process and so come last. It shows status, sessions and
// the end of the log as well: the files may be on a machine that nobody reaches any more.
func (c *cluster) diagnose(ctx context.Context) {
	for _, n := range c.present() {
		var b, shown strings.Builder
		socket := fmt.Sprintf("host=%s.run user=postgres dbname=postgres", filepath.Join(n.config.DataDir, "postgres"))
		for _, q := range []struct {
			url  string
			dial dialer
			sql  string
			to   io.Writer
		}{
			{c.url(n.k), c.net.dial, "SHOW tutti.counters", &b},
			{c.url(n.k), c.net.dial, "SHOW tutti.status", &shown},
			{socket, nil, "SELECT pid, state, wait_event_type, wait_event, now() - xact_start, now() - state_change, " +
				"pg_blocking_pids(pid), left(translate(query, E'\n', ' '), 120) FROM pg_stat_activity " +
				"WHERE query <> ''", &shown},
		} {
			rows, err := ask(ctx, q.url, q.dial, q.sql, 2*time.Second)
			if err != nil {
				fmt.Fprintf(q.to, "%s: %s\n", q.sql, explain(err))
			}
			for _, row := range rows {
				fmt.Fprintln(q.to, " ", strings.Join(row, " | "))
			}
		}
		c.say("%s: %s\nits log ends with\n%s", n.name(), shown.String(), n.lastWords())
		b.WriteString(shown.String())
		path := filepath.Join(c.o.Dir, n.name()+".diagnosis")
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			c.say("%v", err)
		}
	}
	for _, n := range c.present() {
		n.hold()
		n.signal(syscall.SIGQUIT)
	}
	for _, n := range c.present() {
		_ = n.gone(stopTimeout) // it is stopped for good later
		c.say("%s: diagnosis in %s.diagnosis, goroutines at the end of its log", n.name(), n.name())
	}
}

// lastWords are the last lines of the log, without what it says of clients but for the last one that was refused.
func (n *node) lastWords() string {
	all, err := os.ReadFile(n.logFile)
	if err != nil {
		return err.Error()
	}
	var words []string
	refused := ""
	for line := range strings.Lines(string(all)) {
		switch {
		case strings.Contains(line, `msg="client refused"`):
			refused = line
		case !strings.Contains(line, "client_addr="):
			words = append(words, line)
		}
	}
	return strings.Join(words[max(0, len(words)-logLines):], "") + refused
}
