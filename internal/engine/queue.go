package engine

// taskBytes is what a queued item is reckoned to cost beside its payload.
const taskBytes = 1 << 10

// weigh accounts for a task that enters the queue (1) or leaves it (-1), and holds or lets go
// the order accordingly.
func (e *Engine) weigh(t *Task, n int) {
	was := e.Full()
	e.queueBytes += n * (len(t.Item.Payload) + taskBytes)
	if full := e.Full(); full != was {
		if full {
			e.fills++
		}
		e.order.Pause(full)
	}
}

// Backlog is the number of delivered committed items waiting for a group.
func (e *Engine) Backlog() int { return len(e.queue) }

// QueueBytes is what they are reckoned to cost, see Options.QueueBytesMax.
func (e *Engine) QueueBytes() int { return e.queueBytes }

// Fills counts how often the queue was full.
func (e *Engine) Fills() uint64 { return e.fills }

// Behind is the number of entries of the log that are decided and not taken in yet, because the
// queue is full or was until a moment ago.
func (e *Engine) Behind() uint64 { return e.order.Behind() }

// Full reports whether nothing is delivered until the running group is done. The verdict on an
// own submission cannot come before that; if its transaction holds a lock the group waits
// for, one of both must give way: its backend must be ended, and its rows are applied if the
// log says so.
func (e *Engine) Full() bool { return e.queueBytes >= e.o.QueueBytesMax }
