package clients

import (
	"errors"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/tuttidb/tutti/internal/metrics"
	"github.com/tuttidb/tutti/internal/wire"
)

// Log says in the log who has come, who was refused, and who failed to prove who it is. Anybody who reaches the
// port can be refused, so these records are bounded, for each address and for all. What is left out is counted, and the
// count is logged.
type Log struct {
	log *slog.Logger
	now func() time.Time

	counts *metrics.Clients

	mu      sync.Mutex
	all     bucket
	each    map[netip.Prefix]*bucket
	others  bucket // of addresses for which there is no room in each
	swept   time.Time
	leftOut int  // since the last record that says so
	telling bool // such a record is due
}

// bucket holds how many records may be written at once.
type bucket struct {
	left float64
	last time.Time
}

const (
	clientLogBurst  = 200 // records of refused clients and failed logins at once
	clientLogRate   = 1.0 // and for each second
	addressLogBurst = 20  // of one address
	addressLogRate  = 0.1
	addressesLogged = 1024
	leftOutInterval = 10 * time.Second
	prefixBits6     = 64 // of IPv6, where a machine has as many addresses as it likes
)

func NewLog(log *slog.Logger, counts *metrics.Clients) *Log {
	return &Log{log: log, counts: counts, now: time.Now, each: map[netip.Prefix]*bucket{},
		all:    bucket{left: clientLogBurst},
		others: bucket{left: addressLogBurst}}
}

// take reports whether there is room for one more record.
func (b *bucket) take(now time.Time, burst, rate float64) bool {
	b.left = min(burst, b.left+rate*max(0, now.Sub(b.last).Seconds()))
	b.last = now
	if b.left < 1 {
		return false
	}
	b.left--
	return true
}

// allowed reports whether a record about this address may be written.
func (l *Log) allowed(a netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	if l.of(a, now).take(now, addressLogBurst, addressLogRate) && l.all.take(now, clientLogBurst, clientLogRate) {
		return true
	}
	l.counts.Unlogged.Add(1)
	l.leftOut++
	if !l.telling {
		l.telling = true
		time.AfterFunc(leftOutInterval, l.tell)
	}
	return false
}

// of is the bucket of an address; called with mu held.
func (l *Log) of(a netip.Addr, now time.Time) *bucket {
	bits := a.BitLen()
	if a.Is6() {
		bits = prefixBits6
	}
	prefix, _ := a.Prefix(bits) // an address that is none has the zero prefix
	if b := l.each[prefix]; b != nil {
		return b
	}
	if len(l.each) >= addressesLogged && now.Sub(l.swept) >= time.Second {
		l.swept = now
		for p, b := range l.each { // order-free: those that are full again know no more than new ones
			if now.Sub(b.last).Seconds()*addressLogRate >= addressLogBurst {
				delete(l.each, p)
			}
		}
	}
	if len(l.each) >= addressesLogged {
		return &l.others
	}
	b := &bucket{left: addressLogBurst, last: now}
	l.each[prefix] = b
	return b
}

// Enter logs a session that begins; leave, that it has ended.
func (l *Log) Enter(c *Client, login *wire.LoginResult) (leave func()) {
	began := l.now()
	l.counts.Logins.Add(1)
	attributes := slices.Clip(append(c.attributes(), slog.Uint64("pid", uint64(login.BackendPID))))
	l.log.Info("client logged in", append(attributes, slog.String("method", login.Proof.String()))...)
	return func() {
		l.log.Info("client left", append(attributes, slog.Float64("seconds",
			l.now().Sub(began).Round(time.Millisecond).Seconds()))...)
	}
}

// tell says how many records were left out.
func (l *Log) tell() {
	l.mu.Lock()
	n := l.leftOut
	l.leftOut, l.telling = 0, false
	l.mu.Unlock()
	l.log.Warn("more clients were refused, or failed to log in, than are logged", "left_out", n)
}

// Refuse logs a client that is not let in, before it was asked to prove who it is.
func (l *Log) Refuse(c *Client, err error) {
	l.counts.Refused.Add(1)
	l.failure("client refused", c, err)
}

// Fail logs a client that was asked, or that the local server does not let in.
func (l *Log) Fail(c *Client, err error) {
	var gone *wire.ClientError
	if errors.As(err, &gone) && goneAway(gone) { // psql does so, to ask for the password
		l.log.Debug("client left during its login", c.attributes()...)
		return
	}
	l.counts.LoginsFailed.Add(1)
	l.failure("login failed", c, err)
}

// goneAway reports whether a client closed its connection, and did nothing wrong.
func goneAway(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }

func (l *Log) failure(what string, c *Client, err error) {
	if !l.allowed(c.Address.Addr()) {
		return
	}
	attributes := c.attributes()
	var sql *wire.SQLError
	var backend *wire.BackendError
	switch {
	case errors.As(err, &backend):
		f := backend.Fields
		attributes = append(attributes, slog.String("severity", shown(f.Severity)),
			slog.String("sqlstate", shown(f.Code)),
			slog.String("error", shown(f.Message)))
	case errors.As(err, &sql):
		attributes = append(attributes, slog.String("severity", "FATAL"), slog.String("sqlstate", sql.Code),
			slog.String("error", shown(sql.Message)))
	case errors.Is(err, os.ErrDeadlineExceeded):
		attributes = append(attributes, slog.String("error", "the client did not say in time what it wants"))
	default:
		attributes = append(attributes, slog.String("error", shown(err.Error())))
	}
	l.log.Info(what, attributes...)
}
