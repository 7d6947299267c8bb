package engine

import (
	"encoding/binary"
	"maps"
	"slices"

	"github.com/tuttidb/tutti/internal/certify"
	"github.com/tuttidb/tutti/internal/writeset"
)

// Blind transactions lose to nobody. Where they come one after the other to a row, whoever has to see it would never get through. So who has lost to one may ask
// for a while without them, in the order, so that all members read of it. Nothing is decided by it.

const (
	shunOrdinals = 32 // is how long
	shunsMax     = 64 // tables are remembered
)

// toBlind reports whether a transaction has lost to a blind one.
func (e *Engine) toBlind(v certify.Verdict) bool {
	return v.Reason == certify.KeyConflict && e.cert.Blind(v.WinnerOrdinal)
}

// ShunPayload is that of a KindShun about tables.
func ShunPayload(tables []writeset.Table) (payload []byte) {
	for _, t := range tables[:min(len(tables), shunsMax)] {
		payload = binary.LittleEndian.AppendUint64(payload, t.Key)
	}
	return payload
}

// shunItem notes that somebody has asked. It takes an ordinal, and no place in a group.
func (e *Engine) shunItem(it *Item) {
	if w := e.owns[it.ID.Seq]; w != nil && e.mine(it.ID.Member, it.ID.Incarnation) {
		w.ordinal = e.ordinal
		e.finish(w)
	}
	maps.DeleteFunc(e.shuns, func(_, at uint64) bool { return at+shunOrdinals < e.ordinal })
	for key := range slices.Chunk(it.Payload, 8) {
		if len(key) < 8 {
			break
		}
		k := binary.LittleEndian.Uint64(key)
		if _, known := e.shuns[k]; known || len(e.shuns) < shunsMax {
			e.shuns[k] = e.ordinal
		}
	}
}

// Shuns reports whether a transaction that could be blind should not be: it stands in the way of others.
func (e *Engine) Shuns(w *writeset.Writeset) bool {
	for _, t := range w.Tables {
		if at, ok := e.shuns[t.Key]; ok && at+shunOrdinals >= e.ordinal {
			return true
		}
	}
	return false
}
