package engine

import (
	"encoding/binary"
	"maps"
	"slices"

	"github.com/tuttidb/tutti/internal/writeset"
)

// Blind transactions lose to nobody. Where they come one after the other to a row, whoever has to see it would never
// get through. So who has lost to one may ask for a while without them, in the order, so that all members read of it.
// Nothing is decided by it.

const (
	shunOrdinals = 32 // is how long
	shunsMax     = 64 // tables are remembered
)

// ShunPayload is that of a KindShun about tables.
func ShunPayload(tables []writeset.Table) (payload []byte) {
	for _, t := range tables[:min(len(tables), shunsMax)] {
		payload = binary.LittleEndian.AppendUint64(payload, t.Key)
	}
	return payload
}

// shunItem notes that somebody has asked.
func (r *replicated) shunItem(it *Item) {
	maps.DeleteFunc(r.shuns, func(_, at uint64) bool { return at+shunOrdinals < r.ordinal })
	for key := range slices.Chunk(it.Payload, 8) {
		if len(key) < 8 {
			break
		}
		k := binary.LittleEndian.Uint64(key)
		if _, known := r.shuns[k]; known || len(r.shuns) < shunsMax {
			r.shuns[k] = r.ordinal
		}
	}
}

// Shuns reports whether a transaction that could be blind should not be: it stands in the way of others.
func (e *Engine) Shuns(w *writeset.Writeset) bool {
	for _, t := range w.Tables {
		if at, ok := e.log.shuns[t.Key]; ok && at+shunOrdinals >= e.log.ordinal {
			return true
		}
	}
	return false
}
