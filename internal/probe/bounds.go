package probe

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// What one who reaches the port can make a node do at most (PR2).
const (
	connectionsMax  = 32
	headerBytesMax  = 8 << 10
	readTimeout     = 2 * time.Second // for a whole request
	writeTimeout    = 10 * time.Second
	scrapesMax      = 10  // of /metrics in a second, which costs about a millisecond
	requestsMax     = 200 // of all others
	scrapesAtOnce   = 2
	shutdownTimeout = time.Second
)

// bounded is a listener that has a number of connections at once; further ones wait in the kernel.
type bounded struct {
	net.Listener
	places chan struct{}
	closed chan struct{}
	once   sync.Once
}

func newBounded(ln net.Listener, most int) *bounded {
	return &bounded{Listener: ln, places: make(chan struct{}, most), closed: make(chan struct{})}
}

// Accept waits for a place, and for a client.
func (b *bounded) Accept() (net.Conn, error) {
	select {
	case b.places <- struct{}{}:
	case <-b.closed:
		return nil, net.ErrClosed
	}
	conn, err := b.Listener.Accept()
	if err != nil {
		<-b.places
		return nil, err
	}
	return &boundedConn{Conn: conn, leave: sync.OnceFunc(func() { <-b.places })}, nil
}

// Close also ends an Accept that waits for a place.
func (b *bounded) Close() error {
	b.once.Do(func() { close(b.closed) })
	return b.Listener.Close()
}

type boundedConn struct {
	net.Conn
	leave func()
}

// Close gives the place back.
func (c *boundedConn) Close() error {
	err := c.Conn.Close()
	c.leave()
	return err
}

// rate lets so many through in each second of its clock.
type rate struct {
	most int
	now  func() time.Time

	mu     sync.Mutex
	second int64
	n      int
}

func (r *rate) allows() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.now().Unix(); s != r.second {
		r.second, r.n = s, 0
	}
	r.n++
	return r.n <= r.most
}

// guarded lets only some requests through, and only those that read.
func guarded(most int, next http.Handler) http.Handler {
	r := &rate{most: most, now: time.Now}
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		h := w.Header()
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		switch {
		case q.Method != http.MethodGet && q.Method != http.MethodHead:
			h.Set("Allow", "GET, HEAD")
			http.Error(w, "only GET and HEAD", http.StatusMethodNotAllowed)
		case !r.allows():
			h.Set("Retry-After", "1")
			http.Error(w, "too many requests", http.StatusTooManyRequests)
		default:
			next.ServeHTTP(w, q)
		}
	})
}
