package admission

import "sync"

// Gate separates groups from snapshots that must see a prefix (N3 of node). Groups close it; any
// number of snapshots may hold it open for a moment. A group that waits keeps new
// snapshots out, so neither side starves the other for long.
type Gate struct {
	mu      sync.Mutex
	changed *sync.Cond
	group   bool // a group is being carried out
	holes   bool // a transaction beyond the applied ordinal is visible
	holders int
	// those of the holders that may take long, and what breaks them off; called with mu held
	patient map[any]func()
}

// NewGate makes one that is open.
func NewGate() *Gate {
	g := &Gate{patient: map[any]func(){}}
	g.changed = sync.NewCond(&g.mu)
	return g
}

// Close waits until no snapshot is being taken and keeps further ones out.
func (g *Gate) Close() {
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

// Open ends a group and lets snapshots in again, unless it leaves holes.
func (g *Gate) Open(holes bool) {
	g.mu.Lock()
	g.group, g.holes = false, holes
	g.mu.Unlock()
	g.changed.Broadcast()
}

// Moved says that the applied ordinal may have moved without a group, which can fill holes.
func (g *Gate) Moved(holes bool) {
	g.mu.Lock()
	g.holes = g.holes && holes
	g.mu.Unlock()
	g.changed.Broadcast()
}

// Enter waits until the gate is open, or stop() is true, and reports whether it holds the
// gate now.
func (g *Gate) Enter(stop func() bool) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.enterLocked(stop)
}

// EnterPatient is Enter for who may hold the gate for long: when a group comes, it is broken off, and must leave.
func (g *Gate) EnterPatient(of any, stop func() bool, breakOff func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.enterLocked(stop) {
		return false
	}
	g.patient[of] = breakOff
	return true
}

// LeavePatient ends EnterPatient.
func (g *Gate) LeavePatient(of any) {
	g.mu.Lock()
	delete(g.patient, of)
	g.mu.Unlock()
	g.Leave()
}

func (g *Gate) enterLocked(stop func() bool) bool {
	for g.group || g.holes {
		if stop() {
			return false
		}
		g.changed.Wait()
	}
	g.holders++
	return true
}

// Await waits until done() is true, looking again whenever a group has ended.
func (g *Gate) Await(done func() bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for !done() {
		g.changed.Wait()
	}
}

// Leave ends Enter.
func (g *Gate) Leave() {
	g.mu.Lock()
	g.holders--
	g.mu.Unlock()
	g.changed.Broadcast()
}

// Wake makes waiting Enters look at their stop function again.
func (g *Gate) Wake() {
	g.mu.Lock() // so that no enter is between looking and waiting
	g.mu.Unlock()
	g.changed.Broadcast()
}
