package bench

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"
)

// clientProcesses is how many processes the clients are divided among: one for each node,
// and as many for a single server.
const clientProcesses = nodes

// bucket is a number of transactions that took about as long.
type bucket struct {
	ms float64
	n  int64
}

// outcome is what client processes say of their run.
type outcome struct {
	transactions int64
	tps          float64
	meanMs       float64
	latencies    []bucket
	// aborts are tries that the server rolled back with an error that asks to try again.
	aborts int64
	// failed are transactions that were given up.
	failed int64
	cpu    time.Duration
}

// add merges what another process did at the same time.
func (o *outcome) add(p outcome) {
	if n := o.transactions + p.transactions; n > 0 {
		o.meanMs = (o.meanMs*float64(o.transactions) + p.meanMs*float64(p.transactions)) / float64(n)
	}
	o.transactions += p.transactions
	o.tps += p.tps
	o.latencies = append(o.latencies, p.latencies...)
	o.aborts += p.aborts
	o.failed += p.failed
	o.cpu += p.cpu
}

// percentile of the latencies in ms, 0 if there are none.
func percentile(of []bucket, share float64) float64 {
	of = slices.SortedFunc(slices.Values(of), func(a, b bucket) int { return cmp.Compare(a.ms, b.ms) })
	var all, seen int64
	for _, b := range of {
		all += b.n
	}
	for _, b := range of {
		if seen += b.n; float64(seen) >= share*float64(all) {
			return b.ms
		}
	}
	return 0
}

// client is one client process to be run.
type client struct {
	host, port string
	dbname     string
	number     int // from 0
	clients    int
	seconds    int
	seed       int
	dir        string // for its files
}

// tool turns a client into a command and its output into an outcome.
type tool interface {
	command(l *load, c *client) (program string, args []string)
	parse(c *client, output string) (outcome, error)
}

// spread divides clients among processes and these among the server's addresses.
func spread(clients int, l *load, s *server) (out []client) {
	processes := min(clients, clientProcesses)
	for i := range processes {
		n := clients / processes
		if i < clients%processes {
			n++
		}
		address := s.addresses[i%len(s.addresses)]
		if l.oneNode {
			address = s.addresses[0]
		}
		host, port, _ := net.SplitHostPort(address) // made by us
		out = append(out, client{host: host, port: port, dbname: s.dbname, number: i, clients: n})
	}
	return out
}

// runClients runs all client processes of one run at once and merges what they say.
func runClients(ctx context.Context, t tool, l *load, cs []client) (outcome, error) {
	outcomes, errs := make([]outcome, len(cs)), make([]error, len(cs))
	var wg sync.WaitGroup
	for i := range cs {
		wg.Go(func() { outcomes[i], errs[i] = runClient(ctx, t, l, &cs[i]) })
	}
	wg.Wait()
	var all outcome
	for i := range cs {
		if errs[i] != nil {
			return outcome{}, errs[i]
		}
		all.add(outcomes[i])
	}
	return all, nil
}

// runGrace is how much longer than asked a client may run.
const runGrace = 30 * time.Second

func runClient(ctx context.Context, t tool, l *load, c *client) (outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(c.seconds)*time.Second+runGrace)
	defer cancel()
	program, args := t.command(l, c)
	out, cmd, err := run(ctx, program, args...)
	if err != nil {
		return outcome{}, err
	}
	o, err := t.parse(c, out)
	if err != nil {
		return outcome{}, fmt.Errorf("%s: %w\n%s", program, err, lastLines(out))
	}
	o.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return o, nil
}

// run runs a program to its end; an error holds what it said.
func run(ctx context.Context, program string, args ...string) (string, *exec.Cmd, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = clientEnv()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return "", cmd, fmt.Errorf("%s %s: %w\n%s", program, strings.Join(args, " "), err,
			lastLines(stdout.String()+stderr.String()))
	}
	return stdout.String(), cmd, nil
}

// clientEnv is the environment without what libpq would obey.
func clientEnv() []string {
	return append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "PG") }),
		"PGSSLMODE=disable", "LC_ALL=C")
}

func lastLines(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-12):], "\n")
}
