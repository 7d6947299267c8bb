package wire

import (
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"
)

// CancelsMaxDefault bounds a registry made with NewCancels(0).
const CancelsMaxDefault = 10_000

const (
	cancelKeyBytesShort = 4  // protocol 3.0 and 3.1
	cancelKeyBytesLong  = 32 // from protocol 3.2 on, as PostgreSQL 18
)

// Cancels knows the cancel keys of the sessions of this member. It is safe for
// concurrent use.
type Cancels struct {
	max   int
	mu    sync.Mutex
	count int
	byPID map[uint32][]*cancelEntry // more than one while a PID is used again
}

type cancelEntry struct {
	secret []byte
	mu     sync.Mutex // held while cancel runs (W7)
	cancel func()     // nil once released
}

// NewCancels returns a registry of at most max sessions; 0 means
// CancelsMaxDefault.
func NewCancels(max int) *Cancels {
	if max == 0 {
		max = CancelsMaxDefault
	}
	return &Cancels{max: max, byPID: map[uint32][]*cancelEntry{}}
}

// Register makes a random secret for a session that speaks protocol 3.minor
// and whose backend is pid. cancel is called, one call at a time, for each
// matching request until release has returned; release waits for a running
// cancel, so cancel must not call release nor wait for whoever does. release
// may be called more than once. When the registry is full the secret is nil
// and nothing was registered: refuse the session with 53300.
func (c *Cancels) Register(pid uint32, minor uint16, cancel func()) (secret []byte, release func()) {
	size := cancelKeyBytesShort
	if minor >= 2 {
		size = cancelKeyBytesLong
	}
	e := &cancelEntry{secret: make([]byte, size), cancel: cancel}
	if _, err := rand.Read(e.secret); err != nil {
		panic("wire: no randomness: " + err.Error())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.count >= c.max {
		return nil, func() {}
	}
	c.count++
	c.byPID[pid] = append(c.byPID[pid], e)
	return slices.Clone(e.secret), func() { c.release(pid, e) }
}

func (c *Cancels) release(pid uint32, e *cancelEntry) {
	e.mu.Lock()
	e.cancel = nil
	e.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	entries := c.byPID[pid]
	i := slices.Index(entries, e)
	if i < 0 {
		return
	}
	c.count--
	if c.byPID[pid] = slices.Delete(entries, i, i+1); len(entries) == 1 {
		delete(c.byPID, pid)
	}
}

// Len returns how many sessions are registered.
func (c *Cancels) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count
}

// Cancel calls the cancel function of the session that req names and reports
// whether there was one. Secrets are compared in constant time. It returns
// when the cancel function has returned.
func (c *Cancels) Cancel(req *CancelRequest) bool {
	e := c.find(req)
	if e == nil {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.cancel == nil {
		return false
	}
	e.cancel()
	return true
}

func (c *Cancels) find(req *CancelRequest) *cancelEntry {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.byPID[req.PID] {
		if subtle.ConstantTimeCompare(e.secret, req.Secret) == 1 {
			return e
		}
	}
	return nil
}

const sendCancelTimeout = 5 * time.Second

// SendCancel asks the server that dial reaches to cancel what its backend pid
// does, and returns when the server has closed the connection, that is, after
// it has sent the signal. The statement may end at any time later, or not be
// cancelled at all.
func SendCancel(dial func() (net.Conn, error), pid uint32, secret []byte) error {
	conn, err := dial()
	if err != nil {
		return fmt.Errorf("dial to cancel backend %d: %w", pid, err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(sendCancelTimeout)); err != nil {
		return fmt.Errorf("cancel backend %d: %w", pid, err)
	}
	if _, err := conn.Write(AppendCancelRequest(nil, pid, secret)); err != nil {
		return fmt.Errorf("cancel backend %d: %w", pid, err)
	}
	var b [1]byte
	switch _, err := conn.Read(b[:]); {
	case err == nil:
		return fmt.Errorf("cancel backend %d: the server answered a cancel request", pid)
	case errors.Is(err, io.EOF) || !isTimeout(err):
		return nil // closed; a reset is a close, too
	default:
		return fmt.Errorf("cancel backend %d: %w", pid, err)
	}
}
