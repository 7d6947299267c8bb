package sim

import "github.com/tuttidb/tutti/internal/engine"

// gate keeps snapshots and groups apart.
type gate struct {
	waiting []func()      // for a prefix snapshot
	entered int           // sessions that are taking one
	closing *engine.Group // waits for these
}

// gateOpen reports whether the database shows a prefix of the order, and goes on doing so while somebody looks.
func gateOpen(m *member) bool {
	if m.w.o.Planted == "gate-removed" {
		return true
	}
	return m.group == nil && m.gate.closing == nil && !m.engine.Holes()
}

// gateLeft is called when a session has taken its snapshot.
func gateLeft(m *member) {
	m.gate.entered--
	if g := m.gate.closing; g != nil && m.gate.entered == 0 {
		m.gate.closing = nil
		m.startGroup(g)
	}
}

// applyingLast is up to where the group that is applied goes; zero if none is.
func applyingLast(m *member) uint64 {
	if m.group == nil {
		return 0
	}
	return m.group.Last
}
