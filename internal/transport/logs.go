package transport

import (
	"log/slog"
	"maps"
	"strings"
	"sync"
	"time"
)

const (
	unknownLogEvery  = time.Second      // for connections of whoever
	peerLogEvery     = time.Second      // for the end of a member's connection
	outgoingLogEvery = 10 * time.Second // for a member that cannot be reached
)

// gate lets one line per key and interval through and counts the others. Keys come from a
// fixed set: kinds of events and known members.
type gate struct {
	logger *slog.Logger
	mu     sync.Mutex
	last   map[string]time.Time
	held   map[string]int
}

func newGate(l *slog.Logger) *gate {
	return &gate{logger: l, last: map[string]time.Time{}, held: map[string]int{}}
}

func (g *gate) warn(key string, every time.Duration, message string, args ...any) {
	g.mu.Lock()
	if last, ok := g.last[key]; ok && time.Since(last) < every {
		g.held[key]++
		g.mu.Unlock()
		return
	}
	held := g.held[key]
	g.last[key] = time.Now()
	delete(g.held, key)
	g.mu.Unlock()
	if held > 0 {
		args = append(args, "similar", held)
	}
	g.logger.Warn(message, args...)
}

// forget lets the next line of every key that begins so through.
func (g *gate) forget(begin string) {
	g.mu.Lock()
	maps.DeleteFunc(g.last, func(key string, _ time.Time) bool { return strings.HasPrefix(key, begin) })
	g.mu.Unlock()
}
