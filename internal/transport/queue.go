package transport

import (
	"sync"
	"time"
)

const (
	// batchBytesMax bounds what one write takes from the queue, unless a single frame is
	// longer, and so what a broken connection loses.
	batchBytesMax = 1 << 20
	// itemBytes is what a queued frame costs beside its payload.
	itemBytes = 64
)

// item is a frame that waits to be written. due is zero unless the fault seam delays it.
type item struct {
	frame []byte
	due   time.Time
}

// queue is the bounded queue of one peer: any goroutine puts, one takes.
type queue struct {
	mu       sync.Mutex
	bytesMax int
	bytes    int // waiting and being written
	items    []item
	spare    []item // the array of the batch before, for reuse
	closed   bool
	wake     chan struct{} // capacity 1: something was put
}

func newQueue(bytesMax int) *queue {
	return &queue{bytesMax: bytesMax, wake: make(chan struct{}, 1)}
}

// put adds a frame and reports whether there was room. An empty queue takes any frame.
func (q *queue) put(frame []byte, delay time.Duration) bool {
	q.mu.Lock()
	cost := len(frame) + itemBytes
	if q.closed || q.bytes > 0 && q.bytes+cost > q.bytesMax {
		q.mu.Unlock()
		return false
	}
	it := item{frame: frame}
	if delay > 0 {
		it.due = time.Now().Add(delay) // what comes later waits behind it, see take
	}
	q.bytes += cost
	q.items = append(q.items, it)
	q.mu.Unlock()
	select {
	case q.wake <- struct{}{}:
	default:
	}
	return true
}

// take removes the frames to write next. When there are none yet, wait is how long until
// the first is due, or zero if the queue is empty. The result is valid until the next take.
func (q *queue) take() (batch []item, bytes int, wait time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := 0
	for n < len(q.items) && (n == 0 || bytes+len(q.items[n].frame) <= batchBytesMax) {
		if due := q.items[n].due; !due.IsZero() {
			if left := time.Until(due); left > 0 {
				wait = left
				break
			}
		}
		bytes += len(q.items[n].frame) + itemBytes
		n++
	}
	if n == 0 {
		return nil, 0, wait
	}
	batch = q.items[:n:n]
	if n == len(q.items) {
		q.items, q.spare = q.spare[:0], q.items
	} else {
		q.items = q.items[n:]
	}
	return batch, bytes, 0
}

// done gives the room of a batch back and lets go of its frames.
func (q *queue) done(batch []item, bytes int) {
	clear(batch)
	q.mu.Lock()
	q.bytes -= bytes
	q.mu.Unlock()
}

// empty drops what waits and returns how much that was.
func (q *queue) empty() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := uint64(len(q.items))
	for _, it := range q.items {
		q.bytes -= len(it.frame) + itemBytes
	}
	clear(q.items)
	q.items = q.items[:0]
	return n
}

func (q *queue) queued() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.bytes
}

func (q *queue) close() {
	q.mu.Lock()
	q.closed, q.items, q.spare = true, nil, nil
	q.mu.Unlock()
}
