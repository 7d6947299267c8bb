package node

import "github.com/tuttidb/tutti/internal/engine"

// gone tells every database's order that a member has ended. Nobody waits for it from then on.
func (t *tenure) gone(member uint32) {
	t.words.Gone(member)
	for _, l := range t.all() {
		l.others.peers.Forget(member)
		l.notices.Wake()
		l.order.core.Do(func(e *engine.Engine) { e.Gone(member) })
	}
}

// reached tells every database's order that there is a new connection to a member.
func (t *tenure) reached(member uint32) {
	for _, l := range t.all() {
		l.order.core.Do(func(e *engine.Engine) { e.Reached(member) })
	}
}

// reaches reports whether there is a connection to a member.
func (l *life) reaches(member uint32) bool { return l.tenure.transport.Stats()[member].Connected }
