package engine

import (
	"bytes"
	"testing"

	"github.com/tuttidb/tutti/internal/writeset"
)

// TestRoomForParts: room for a payload is taken once, when its first part comes, and once more behind a checkpoint,
// which has room for nothing that follows.
func TestRoomForParts(t *testing.T) {
	var asked []int
	o := Options{Member: 1, Room: func(n int) []byte { asked = append(asked, n); return make([]byte, 0, n) }}
	r := newReplicated(&o)
	s := source{incarnation: 1, number: 1}
	part := func(b string) {
		r.takePart(&s, &Item{Kind: KindPart, ID: writeset.TxID{Member: 2, Incarnation: 1, Seq: 5}, Base: 12,
			SharedBase: 12, Payload: []byte(b)}, nil)
	}
	part("one ")
	part("two ")
	r.sources[2] = s
	c := r.checkpoint(1, 1)
	again := newReplicated(&o)
	again.restore(c, o.Certify)
	before := s.parts
	r, s = again, again.sources[2]
	part("three")
	if got := string(s.join(&Item{Payload: []byte("!")}, nil)); got != "one two three!" {
		t.Errorf("the parts are %q", got)
	}
	if len(asked) != 2 || asked[0] != 12 || asked[1] != 12 || !bytes.Equal(before, []byte("one two ")) {
		t.Errorf("room was asked for %v", asked)
	}
	again.sources[2] = s
	if n := PartsOf(&Engine{log: again}); n != len("one two three") {
		t.Errorf("%d bytes have come of payloads whose ends have not", n)
	}
}
