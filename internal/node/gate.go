package node

import "sync"

// gate separates groups from snapshots that must see a prefix (N3). Groups close it; any
// number of snapshots may hold it open for a moment. A group that waits keeps new
// snapshots out, so neither side starves the other for long.
type gate struct {
	mu      sync.Mutex
	changed *sync.Cond
	group   bool // a group is being carried out
	holes   bool // a transaction beyond the applied ordinal is visible
	holders int
	// those of the holders that may take long, and what breaks them off; called with mu held
	patient map[*guard]func()
}

func newGate() *gate {
	g := &gate{patient: map[*guard]func(){}}
	g.changed = sync.NewCond(&g.mu)
	return g
}

// close waits until no snapshot is being taken and keeps further ones out.
func (g *gate) close() {
	g.mu.Lock()
	g.group = true
	for of, breakOff := range g.patient {
		delete(g.patient, of)
		breakOff()
	}
	for g.holders > 0 {
		g.changed.Wait()
	}
	g.mu.Unlock()
}

// open ends a group and lets snapshots in again, unless it leaves holes.
func (g *gate) open(holes bool) {
	g.mu.Lock()
	g.group, g.holes = false, holes
	g.mu.Unlock()
	g.changed.Broadcast()
}

// moved says that the applied ordinal may have moved without a group, which can fill holes.
func (g *gate) moved(holes bool) {
	g.mu.Lock()
	g.holes = g.holes && holes
	g.mu.Unlock()
	g.changed.Broadcast()
}

// enter waits until the gate is open, or stop() is true, and reports whether it holds the
// gate now.
func (g *gate) enter(stop func() bool) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.enterLocked(stop)
}

// enterPatient is enter for who may hold the gate for long: when a group comes, it is broken off, and must leave.
func (g *gate) enterPatient(of *guard, stop func() bool, breakOff func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.enterLocked(stop) {
		return false
	}
	g.patient[of] = breakOff
	return true
}

func (g *gate) leavePatient(of *guard) {
	g.mu.Lock()
	delete(g.patient, of)
	g.mu.Unlock()
	g.leave()
}

func (g *gate) enterLocked(stop func() bool) bool {
	for g.group || g.holes {
		if stop() {
			return false
		}
		g.changed.Wait()
	}
	g.holders++
	return true
}

// await waits until done() is true, looking again whenever a group has ended.
func (g *gate) await(done func() bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for !done() {
		g.changed.Wait()
	}
}

// leave ends enter.
func (g *gate) leave() {
	g.mu.Lock()
	g.holders--
	g.mu.Unlock()
	g.changed.Broadcast()
}

// wake makes waiting enters look at their stop function again.
func (g *gate) wake() {
	g.mu.Lock() // so that no enter is between looking and waiting
	g.mu.Unlock()
	g.changed.Broadcast()
}
