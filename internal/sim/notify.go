package sim

import (
	"encoding/binary"

	"github.com/tuttidb/tutti/internal/engine"
)

// listenerKey names what one member hears of one life of another.
type listenerKey struct {
	at, from    uint32
	incarnation uint64
}

// heard is the last notification of a listenerKey, and the life of the hearer in which it came.
type heard struct{ n, life uint64 }

// notify is called when the transaction with an ordinal has committed at m, whose sessions are told by
// their database: the others are told through the order.
func (m *member) notify(ordinal uint64) {
	if p := m.w.swarm.notifyPerMille; p == 0 || !m.w.rnd.chance(p) {
		return
	}
	x := &m.listens
	if x.on && !x.passes(channelNames[x.rnd.intn(len(channelNames))]) {
		return
	}
	m.seq++
	payload := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, x.notified+1), ordinal)
	if m.engine.Submit(engine.Submission{Kind: engine.KindNotify, Seq: m.seq, Payload: payload}) {
		x.notified++
	}
	m.wake()
}

// hear is called for the notify items of a group, once it is done.
func (m *member) hear(tasks []engine.Task) {
	for _, t := range tasks {
		if t.Own || !m.open && m.w.o.Planted != "notified-before-open" {
			continue
		}
		m.w.stats.Waits.Notified++
		n, ordinal := binary.BigEndian.Uint64(t.Item.Payload), binary.BigEndian.Uint64(t.Item.Payload[8:])
		if applied := m.engine.Applied(); applied < ordinal {
			m.w.violation("%v: is notified of ordinal %d when it has applied %d", m, ordinal, applied)
		}
		k := listenerKey{m.id, t.Item.ID.Member, t.Item.ID.Incarnation}
		if last := m.w.truth.heard[k]; n <= last.n || last.life == m.incarnation && n != last.n+1 {
			m.w.violation("%v: notification %d of member %d.%d follows %d", m, n, k.from, k.incarnation, last.n)
		}
		m.w.truth.heard[k] = heard{n, m.incarnation}
	}
}

// notes are a group's notify items.
func notes(g *engine.Group) (out []engine.Task) {
	for _, t := range g.Tasks {
		if t.Item.Kind == engine.KindNotify {
			out = append(out, t)
		}
	}
	return out
}
