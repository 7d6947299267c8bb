package node

import "github.com/tuttidb/tutti/internal/engine"

// letGo lets more of a large transaction leave, if it is time.
func (l *life) letGo(seq uint64) {
	synced, voters, percent := l.others.peers.Synced(), len(l.config.All()),
		l.settled().Limits.FlowMinorityPercent
	// If the core has stopped, the session is told.
	l.order.core.Do(func(e *engine.Engine) { l.order.paces.LetGo(e, seq, synced, voters, percent) })
}
