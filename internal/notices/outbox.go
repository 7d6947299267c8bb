package notices

import (
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/tuttidb/tutti/internal/metrics"
	"github.com/tuttidb/tutti/internal/writeset"
)

// notification is what a NOTIFY says.
type notification struct{ channel, payload string }

// Payload of a notify item, version 1: byte version, number of notifications, then channel and payload
// of each, length-prefixed, in the order in which the origin committed them.
const notifyVersion = 1

// notificationBytesMin is what one takes encoded: two lengths.
const notificationBytesMin = 2

func appendNotification(dst []byte, n notification) []byte {
	return writeset.AppendBytes(writeset.AppendBytes(dst, []byte(n.channel)), []byte(n.payload))
}

func decodeNotifications(b []byte) ([]notification, error) {
	r := writeset.NewReader(b)
	if v := r.Byte(); v != notifyVersion {
		return nil, fmt.Errorf("notifications in the log have version %d, this build knows %d: %w", v, notifyVersion,
			writeset.ErrUnknown)
	}
	out := make([]notification, r.Count(notificationBytesMin))
	for i := range out {
		out[i] = notification{string(r.Bytes()), string(r.Bytes())}
	}
	return out, r.Done()
}

const (
	chunkBytesMax = 64 << 10 // of one notify item, unless a single notification is larger
	// chunksUnderWay bounds the notify items of this member that are not carried out here yet, so that a
	// flood of them leaves room for transactions.
	chunksUnderWay = 4
)

// chunk is what will be one notify item.
type chunk struct {
	n    int
	data []byte
}

// outbox holds what local sessions have notified until it is put into the order.
type outbox struct {
	mu     sync.Mutex
	chunks []chunk
	bytes  int
	max    int
	filled chan struct{} // capacity 1
	under  chan struct{} // a place for each notify item under way
	counts *metrics.Notify
}

func (o *outbox) init(max int, counts *metrics.Notify) {
	o.counts = counts
	o.max, o.filled, o.under = max, make(chan struct{}, 1), make(chan struct{}, chunksUnderWay)
}

// set limits how many bytes there may be.
func (o *outbox) set(max int) {
	o.mu.Lock()
	o.max = max
	o.mu.Unlock()
}

// put adds a notification. False if there are too many: then it is dropped.
func (o *outbox) put(n notification) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	size := len(n.channel) + len(n.payload) + 2*binary.MaxVarintLen32
	if o.bytes+size > o.max {
		o.counts.Refused.Add(1)
		return false
	}
	if last := len(o.chunks) - 1; last < 0 || len(o.chunks[last].data)+size > chunkBytesMax {
		o.chunks = append(o.chunks, chunk{})
	}
	c := &o.chunks[len(o.chunks)-1]
	before := len(c.data)
	c.data = appendNotification(c.data, n)
	c.n++
	o.bytes += len(c.data) - before
	o.counts.Taken.Add(1)
	select {
	case o.filled <- struct{}{}:
	default:
	}
	return true
}

// take returns the payload of the next item; nil if there is none.
func (o *outbox) take() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.chunks) == 0 {
		return nil
	}
	c := o.chunks[0]
	o.chunks[0] = chunk{}
	o.chunks = o.chunks[1:]
	o.bytes -= len(c.data)
	return append(binary.AppendUvarint([]byte{notifyVersion}, uint64(c.n)), c.data...)
}

func (o *outbox) size() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.bytes
}
