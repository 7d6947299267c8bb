package engine

import (
	"math"
	"slices"
)

// schedule is what is delivered and on its way into the database: groups, one at a time and in order (E4), the queue
// behind the running one, and what was committed ahead of its group.
type schedule struct {
	o     *Options
	log   *replicated
	pause func(bool)  // holds the order, or lets it go on (E9)
	busy  func() bool // own submissions are under way

	queue   []Task // delivered, not yet issued as a group
	bytes   int    // of it, see Options.QueueBytesMax
	fills   uint64 // how often that was reached
	first   uint64 // ordinal not covered by an issued group
	running *Group
	groups  uint64 // how many were issued
	tasks   int    // of the last one
	issue   bool   // see Engine.Issue
	spoke   uint64 // the last item of this member's
	early   []Task // committed ahead of their group, until applied passes them

	applied uint64
	volume  uint64 // of the order up to applied
}

// start begins behind what the log says is applied.
func (q *schedule) start() {
	q.first, q.applied, q.volume = q.log.ordinal+1, q.log.ordinal, q.log.volume
}

// add queues a task.
func (q *schedule) add(t Task) {
	q.queue = append(q.queue, t)
	q.weigh(&t, 1)
}

// taskBytes is what a queued item is reckoned to cost beside its payload.
const taskBytes = 1 << 10

// weigh accounts for a task that enters the queue (1) or leaves it (-1), and holds or lets go
// the order accordingly.
func (q *schedule) weigh(t *Task, n int) {
	was := q.full()
	q.bytes += n * (len(t.Item.Payload) + taskBytes)
	if full := q.full(); full != was {
		if full {
			q.fills++
		}
		q.pause(full)
	}
}

func (q *schedule) full() bool { return q.bytes >= q.o.QueueBytesMax }

// next issues the next group if none is running. Items that change nothing (aborted, or already in the database) ride
// along. A group without a task is done as soon as it is issued; the caller says so (finish).
func (q *schedule) next() *Group {
	if !q.due() {
		return nil
	}
	q.issue = false
	n := q.cut()
	g := &Group{First: q.first, Last: q.log.ordinal, Tasks: q.queue[:n:n], volume: q.log.volume}
	q.queue = q.queue[n:]
	for i := range g.Tasks {
		q.weigh(&g.Tasks[i], -1)
	}
	if len(q.queue) > 0 {
		g.Last, g.volume = q.queue[0].Ordinal-1, q.queue[0].before
	}
	q.first = g.Last + 1
	q.running = g
	q.groups++
	q.tasks = n
	if planted == "applied-is-issued" {
		q.applied = g.Last
	}
	return g
}

// cut says how many tasks of the queue make the next group. Notifications split no group: they are due when it is done.
func (q *schedule) cut() (n int) {
	bytes := 0
	local := uint64(math.MaxUint64) // ordinal of the first local task in the group
	var under underway
	for n < len(q.queue) && n < q.o.GroupItemsMax {
		t := &q.queue[n]
		if t.Item.Kind == KindCertified && !t.Local && t.Item.Base >= local && planted != "group-not-split" {
			return n // E7
		}
		if t.Item.Kind == KindCertified && under.meets(t) && planted != "blind-beside-local" {
			return n // E16
		}
		if t.Local {
			local = min(local, t.Ordinal)
		}
		if t.alone() {
			return max(n, 1)
		}
		if n > 0 && bytes+len(t.Item.Payload) > q.o.GroupBytesMax {
			return n
		}
		bytes += len(t.Item.Payload)
		n++
	}
	return n
}

// finish ends the running group, and calls settle with each task that is in the database by it, and which group it came
// in; zero for those that were ahead of theirs.
func (q *schedule) finish(settle func(t *Task, group uint64)) {
	g := q.running
	if g == nil {
		panic("engine: GroupDone without a group")
	}
	q.running = nil
	q.applied, q.volume = g.Last, g.volume
	for i := range g.Tasks {
		settle(&g.Tasks[i], q.groups)
	}
	clear(g.Tasks) // the queue's array would keep them
	left := q.early[:0]
	for i := range q.early {
		if q.early[i].Ordinal <= q.applied {
			settle(&q.early[i], 0)
		} else {
			left = append(left, q.early[i])
		}
	}
	q.early = left
}

// orphan has the rows of a queued task applied like another member's: its session is gone.
func (q *schedule) orphan(ordinal uint64) {
	for i := range q.queue {
		if q.queue[i].Ordinal == ordinal {
			q.queue[i].Local, q.queue[i].Mark = false, true
		}
	}
}

// queued reports whether a certified own transaction waits behind the running group.
func (q *schedule) queued(seq uint64) bool {
	return q.running != nil && slices.ContainsFunc(q.queue, func(t Task) bool { return t.is(seq) })
}

// take takes the task of a certified own transaction that waits behind the running group out of the queue; false if seq
// is not such a transaction.
func (q *schedule) take(seq uint64) (Task, bool) {
	if q.running == nil {
		return Task{}, false
	}
	i := slices.IndexFunc(q.queue, func(t Task) bool { return t.is(seq) })
	if i < 0 {
		return Task{}, false
	}
	t := q.queue[i]
	q.queue = append(q.queue[:i:i], q.queue[i+1:]...)
	q.weigh(&t, -1)
	q.early = append(q.early, t)
	return t, true
}

// is reports whether the task is a session's own transaction with a sequence.
func (t *Task) is(seq uint64) bool { return t.Local && t.Item.ID.Seq == seq }
