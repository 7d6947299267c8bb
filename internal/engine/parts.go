package engine

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/tuttidb/tutti/internal/writeset"
)

// partsHintMax bounds what is taken on the word of a part for all that follow it.
const partsHintMax = 1 << 30

// takePart adds a part to the payload that comes from a source. Of an own submission the payload is known
// and serves as its own front; of others, memory for all of it is taken at once, so that it is not copied as it grows.
func (e *Engine) takePart(s *source, it *Item) {
	n := len(s.parts)
	if n > 0 && !s.id.IsZero() && s.id != it.ID {
		panic(fmt.Sprintf("engine: a part of transaction %s follows one of %s, whose end has not come", it.ID, s.id))
	}
	if s.id = it.ID; it.ID.Seq == 0 || n+len(it.Payload) == 0 {
		s.id = writeset.TxID{} // none that a member makes
	}
	if w := e.sent(it); w != nil && n+len(it.Payload) <= len(w.Payload) && bytes.Equal(w.Payload[n:n+len(it.Payload)], it.Payload) {
		s.parts = w.Payload[: n+len(it.Payload) : n+len(it.Payload)]
		return
	}
	if total := int(min(it.Base, partsHintMax)); s.parts == nil && total > len(it.Payload) {
		s.parts = make([]byte, 0, total)
	}
	s.parts = append(s.parts, it.Payload...)
	if it.ID.Member != e.o.Member {
		e.fronts = append(e.fronts, Front{ID: it.ID, Bytes: slices.Clip(s.parts), Total: int(min(it.Base, partsHintMax)), State: Coming})
	}
}

// Sent is how many bytes of an own payload have left in parts.
func (e *Engine) Sent(seq uint64) int {
	if w := e.owns[seq]; w != nil {
		return w.sent
	}
	return 0
}

// Pace says anew how much of an own payload may leave, see Submission.Front.
func (e *Engine) Pace(seq uint64, front int) {
	if w := e.owns[seq]; w != nil && w.Front > 0 && front > 0 {
		w.Front = front
		e.propose()
	}
}

// sent is the own submission that an item is of, if it is of this life.
func (e *Engine) sent(it *Item) *own {
	if it.ID.Member != e.o.Member || it.ID.Incarnation != e.o.Incarnation {
		return nil
	}
	return e.owns[it.ID.Seq]
}

// join is the whole payload of the item that ends a source's parts.
func (e *Engine) join(s *source, it *Item) []byte {
	n := len(s.parts)
	if w := e.sent(it); w != nil && len(w.Payload) == n+len(it.Payload) && n > 0 && &w.Payload[0] == &s.parts[0] && bytes.Equal(w.Payload[n:], it.Payload) {
		return w.Payload
	}
	return append(s.parts, it.Payload...)
}

// whole tells what became of a payload that came in parts.
func (e *Engine) whole(it *Item, commit bool) {
	if it.ID.Member == e.o.Member {
		return
	}
	f := Front{ID: it.ID, Bytes: it.Payload, Total: len(it.Payload), State: Whole}
	if !commit || it.Kind != KindCertified {
		f.Bytes, f.State = nil, Dropped
	}
	e.fronts = append(e.fronts, f)
}

// dropParts forgets what has come from a source that has begun a new life.
func (e *Engine) dropParts(s *source) {
	if s.parts != nil && s.id.Member != e.o.Member && !s.id.IsZero() {
		e.fronts = append(e.fronts, Front{ID: s.id, State: Dropped})
	}
	s.parts, s.id = nil, writeset.TxID{}
}

// decode reads an item's writeset. An own submission whose bytes these are has been made of them
// (Submission.Writeset), so that to read them again would only hold up the engine.
func (e *Engine) decode(it *Item) (*writeset.Writeset, error) {
	if w := e.sent(it); w != nil && w.Kind == KindCertified && w.Decoded && len(w.Payload) == len(it.Payload) && len(it.Payload) > 0 && &w.Payload[0] == &it.Payload[0] {
		return w.Writeset, nil
	}
	return writeset.Decode(it.Payload)
}
