package engine

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/tuttidb/tutti/internal/writeset"
)

// partsHintMax bounds what is taken on the word of a part for all that follow it.
const partsHintMax = 1 << 34

// takePart adds a part to the payload that comes from a source. Of an own submission w the payload is known
// and serves as its own front; of others, room for all of it is taken at once, so that it is not copied as it grows.
func (r *replicated) takePart(s *source, it *Item, w *own) {
	n := len(s.parts)
	if n > 0 && !s.id.IsZero() && s.id != it.ID {
		panic(fmt.Sprintf("engine: a part of transaction %s follows one of %s, whose end has not come", it.ID, s.id))
	}
	if s.id = it.ID; it.ID.Seq == 0 || n+len(it.Payload) == 0 {
		s.id = writeset.TxID{} // none that a member makes
	}
	if end := n + len(it.Payload); w != nil && end <= len(w.Payload) && bytes.Equal(w.Payload[n:end], it.Payload) {
		s.parts = w.Payload[:end:end]
		return
	}
	total := int(min(it.Base, partsHintMax))
	if cap(s.parts) < total && total > len(it.Payload) {
		s.parts = append(r.room(total), s.parts...)
	}
	s.parts = append(s.parts, it.Payload...)
	if it.ID.Member != r.member {
		r.fronts = append(r.fronts, Front{ID: it.ID, Bytes: slices.Clip(s.parts), Total: total, State: Coming})
	}
}

// PartsOf is how many bytes have come of payloads whose ends have not: a checkpoint would hold them.
func PartsOf(e *Engine) (n int) {
	for _, s := range e.log.sources { // order-free: they are added
		n += len(s.parts)
	}
	return n
}

// ends reports whether an item that is no part ends the payload that comes from its source (E13).
func (s *source) ends(it *Item) bool { return s.parts != nil && (s.id.IsZero() || s.id == it.ID) }

// join is the whole payload of the item that ends a source's parts. Of an own submission w it may be known.
func (s *source) join(it *Item, w *own) []byte {
	n := len(s.parts)
	if w != nil && n > 0 && len(w.Payload) == n+len(it.Payload) && &w.Payload[0] == &s.parts[0] &&
		bytes.Equal(w.Payload[n:], it.Payload) {
		return w.Payload
	}
	return append(s.parts, it.Payload...)
}

// whole tells what became of a payload that came in parts.
func (r *replicated) whole(it *Item, commit bool) {
	if it.ID.Member == r.member {
		return
	}
	f := Front{ID: it.ID, Bytes: it.Payload, Total: len(it.Payload), State: Whole}
	if !commit || it.Kind != KindCertified {
		f.Bytes, f.State = nil, Dropped
	}
	r.fronts = append(r.fronts, f)
}

// dropParts forgets what has come from a source that has begun a new life.
func (r *replicated) dropParts(s *source) {
	if s.parts != nil && s.id.Member != r.member && !s.id.IsZero() {
		r.fronts = append(r.fronts, Front{ID: s.id, State: Dropped})
	}
	s.parts, s.id = nil, writeset.TxID{}
}

// decode reads an item's writeset. An own submission w whose bytes these are has been made of them
// (Submission.Writeset), so that to read them again would only hold up the engine.
func (w *own) decode(it *Item) (*writeset.Writeset, error) {
	if w != nil && w.Kind == KindCertified && w.Keys != nil && len(it.Payload) > 0 &&
		len(w.Payload) == len(it.Payload) && &w.Payload[0] == &it.Payload[0] {
		return w.Writeset, nil
	}
	return writeset.Decode(it.Payload)
}

// Pace says anew how much of an own payload may leave, see Submission.Front.
func (e *Engine) Pace(seq uint64, front int) {
	if w := e.own.owns[seq]; w != nil && w.Front > 0 && front > 0 {
		w.Front = front
		e.own.propose()
	}
}
