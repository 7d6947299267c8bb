package node

import (
	"runtime"
	"strconv"
	"sync/atomic"

	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/session"
)

// counters is what one life has done so far. They only grow, and start from zero with the
// next life.
type counters struct {
	fsyncs   atomic.Uint64 // of the log
	entries  atomic.Uint64 // written to the log
	batches  atomic.Uint64 // of own items, made to be proposed
	groups   atomic.Uint64 // issued
	local    atomic.Uint64 // transactions of this member's sessions in those groups
	remote   atomic.Uint64 // items in those groups that were applied here
	aborted  atomic.Uint64 // own transactions that lost at certification
	sent     atomic.Uint64 // frames of the order to other members
	received atomic.Uint64 // and from them
	handed   atomic.Uint64 // how often this member gave the lead to another
}

// group counts a group that is issued.
func (c *counters) group(g *engine.Group) {
	c.groups.Add(1)
	for i := range g.Tasks {
		switch {
		case g.Tasks[i].Local:
			c.local.Add(1)
		case g.Tasks[i].Item.Kind != engine.KindNotify:
			c.remote.Add(1)
		}
	}
}

var counterColumns = []string{"name", "value"}

// showCounters answers SHOW tutti.counters, one row per counter.
func (l *life) showCounters() session.Result {
	r := session.Result{Tag: "SHOW", Columns: counterColumns}
	c := &l.core.counters
	for _, row := range []struct {
		name  string
		value *atomic.Uint64
	}{
		{"ordinal", &l.core.ordinal}, {"applied", &l.core.applied},
		{"fsyncs", &c.fsyncs}, {"entries", &c.entries}, {"batches", &c.batches},
		{"groups", &c.groups}, {"local", &c.local}, {"remote", &c.remote}, {"aborted", &c.aborted},
		{"frames_sent", &c.sent}, {"frames_received", &c.received}, {"handed_over", &c.handed},
		{"throttled", &l.throttle.times}, {"throttled_us", &l.throttle.micros}, {"rested_us", &l.easing.rested},
		{"turns", &l.turns.allowed}, {"turns_waited", &l.turns.waits}, {"held_back", &l.holds.waits}, {"additions", &l.additions.putOff}, {"blind", &l.additions.blind}, {"blind_blocks", &l.additions.blocks},
		{"audit_parts", &l.audit.parts}, {"audit_passes", &l.audit.passes}, {"audit_us", &l.audit.micros},
		{"notified", &l.outbox.taken}, {"notifications_told", &l.publisher.told}, {"notifications_lost", &l.publisher.dropped},
		{"logins", &l.node.clients.logins}, {"logins_failed", &l.node.clients.failed}, {"clients_refused", &l.node.clients.refused}, {"clients_unlogged", &l.node.clients.unlogged}, // of the process
	} {
		r.Rows = append(r.Rows, []string{row.name, strconv.FormatUint(row.value.Load(), 10)})
	}
	r.Rows = append(r.Rows, []string{"goroutines", strconv.Itoa(runtime.NumGoroutine())}) // of the process, now
	return r
}
