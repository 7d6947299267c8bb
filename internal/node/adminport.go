package node

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/tuttidb/tutti/internal/probe"
	"github.com/tuttidb/tutti/internal/replica"
)

// openAdmin opens the admin port, if one is configured, and answers there until ctx ends. It comes early and goes late:
// a node that starts, or stops, says so.
func openAdmin(ctx context.Context, n *Node) (ln net.Listener, err error) {
	if n.config.Admin.Listen == "" {
		return nil, nil
	}
	return n.listen(ctx, "admin port", n.config.Admin.Listen)
}

// serveAdmin answers at an admin port, if there is one.
func serveAdmin(ctx context.Context, running *sync.WaitGroup, ln net.Listener, n *Node) {
	if ln == nil {
		return
	}
	n.log.Info("the admin port is open", "address", ln.Addr().String())
	o := probe.Options{
		Metrics: n.metrics, Log: n.log,
		Facts:  func(database string) (probe.Facts, bool) { return facts(n, database) },
		Status: func() ([]string, [][]string, bool) { return statusRows(n) },
	}
	running.Go(func() { probe.Serve(ctx, ln, o) })
}

// facts tells load balancers of a database at this member; of the main one if it has no name.
func facts(n *Node, database string) (f probe.Facts, known bool) {
	f = probe.Facts{Starting: true, Draining: n.stops.Refuses(),
		Reach: replica.Reach{Members: len(n.config.All()), Heard: 1}}
	t := n.current()
	switch w := n.waits.Load(); {
	case w != nil:
		f.Waits = *w
	case t != nil && t.standing != nil:
		f.Waits = t.standing.Why()
	}
	if t == nil {
		return f, true
	}
	l := t.life(mainGroup)
	if database != "" {
		l = t.named(database)
	}
	if l == nil {
		return f, !t.ready()
	}
	s := l.others.peers.Own()
	f.Starting = !l.course.ready.Load()
	f.Reach, f.Slow = l.reach(), l.others.peers.IsSlow()
	f.Lag, f.Age = s.Lag.Items, l.others.age.Is(time.Since(l.course.began), s.Applied)
	if s.Halted != nil {
		f.Halted = s.Halted.Text()
	}
	if f.Starting && f.Waits == "" {
		f.Waits = f.Recovers()
	}
	return f, true
}

// statusRows is SHOW tutti.status of the main database.
func statusRows(n *Node) (columns []string, rows [][]string, ok bool) {
	t := n.current()
	if t == nil {
		return nil, nil, false
	}
	l := t.life(mainGroup)
	if l == nil {
		return nil, nil, false
	}
	r := l.shows.Show("status")
	return r.Columns, r.Rows, true
}
