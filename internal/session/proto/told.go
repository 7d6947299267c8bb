package proto

import (
	"bytes"

	"github.com/tuttidb/tutti/internal/wire"
)

// announces reports whether a frame says nothing yet of what a statement did.
func announces(t byte) bool {
	switch t {
	case wire.TypeParseComplete, wire.TypeBindComplete, wire.TypeCloseComplete, wire.TypeParameterDescription,
		wire.TypeRowDescription, wire.TypeNoData:
		return true
	}
	return false
}

// told is what the client has seen of a statement that may still have to be run again: NOTICEs, and what
// announces its results. Another run does not repeat it (P1).
type told struct {
	early   bool   // the client may be told
	head    []byte // whole frames that announce
	notices []byte // whole frames; LateBytesMax at most
	headAt  int    // where in head the present run is
	at      int    // where in notices it is
	broken  bool   // the present run announces something else
}

// begin is called before a statement's first run.
func (t *told) begin(early bool) { *t = told{early: early, head: t.head[:0], notices: t.notices[:0]} }

// again is called before each run.
func (t *told) again() { t.headAt, t.at, t.broken = 0, 0, false }

// announced reports whether an earlier run has announced the same.
func (t *told) announced(raw []byte) bool {
	rest := t.head[t.headAt:]
	if len(rest) == 0 {
		return false
	}
	t.broken = t.broken || !bytes.HasPrefix(rest, raw)
	t.headAt = min(t.headAt+len(raw), len(t.head))
	return true
}

// noticed reports whether an earlier run has told the same, and if not keeps it in mind.
func (t *told) noticed(raw []byte) bool {
	if bytes.HasPrefix(t.notices[t.at:], raw) {
		t.at += len(raw)
		return true
	}
	if t.at == len(t.notices) && t.at+len(raw) <= LateBytesMax {
		t.notices = append(t.notices, raw...)
		t.at = len(t.notices)
	}
	return false
}
