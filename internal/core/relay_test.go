package core

import (
	"bytes"
	"context"
	"slices"
	"testing"
)

// TestRelays: what is ordered comes to members of another site through one of them, and all carry it out.
func TestRelays(t *testing.T) {
	groups := [][]uint32{{2, 3}, {4, 5}}
	x := start(t, 5, func(_ uint32, o *Options) { o.Sites = func() [][]uint32 { return groups } })
	until(t, "there is a leader", func() bool { return x.leader() != 0 })
	relayed := func() (n uint64) {
		for _, c := range x.cores {
			n += c.o.Metrics.Log.Relayed.Load()
		}
		return n
	}
	seq := uint64(0)
	until(t, "something is passed on", func() bool {
		seq++
		return x.cores[1].Order(context.Background(), fence(seq)) && relayed() > 0
	})
	until(t, "all have carried out all", func() bool {
		return !slices.ContainsFunc(x.cores, func(c *Core) bool { return c.Ordinal() < seq || c.Applied() != c.Ordinal() })
	})
}

// TestRelayFrames: what is made is read again, and what nobody makes is refused.
func TestRelayFrames(t *testing.T) {
	targets, data, err := decodeRelay(appendRelay([]uint32{3, 300, 1<<32 - 1}, []byte("message")))
	if err != nil || !slices.Equal(targets, []uint32{3, 300, 1<<32 - 1}) || string(data) != "message" {
		t.Errorf("%v %q: %v", targets, data, err)
	}
	c := New(Options{Member: 2})
	for _, frame := range [][]byte{
		nil, {0}, {1}, {2, 1}, {1, 0}, {2, 3, 3}, {relayTargetsMax + 1, 1}, {0x80},
		{1, 0xff, 0xff, 0xff, 0xff, 0x7f}, // no member has this number
	} {
		if c.Relay(1, frame) == nil {
			t.Errorf("%v is taken", frame)
		}
	}
	if c.Relayed(nil) == nil || c.Relayed([]byte{0, 1}) == nil || len(c.inbox) > 0 {
		t.Error("a message of nobody is taken")
	}
	if got := <-relayedTo(t, appendRelay([]uint32{1, 2, 7}, []byte("m"))); got != 7 {
		t.Errorf("it is passed on to member %d", got)
	}
}

// relayedTo gives to whom member 2 passes a frame of member 1's on, that has it itself as well.
func relayedTo(t *testing.T, frame []byte) <-chan uint32 {
	t.Helper()
	to := make(chan uint32, relayTargetsMax)
	c := New(Options{Member: 2, Relayed: func(m uint32, frame []byte) bool {
		if !bytes.Equal(frame, []byte("\x01m")) {
			t.Errorf("%q is passed on", frame)
		}
		to <- m
		return true
	}})
	if err := c.Relay(1, frame); err != nil {
		t.Error(err)
	}
	if m := <-c.inbox; m.from != 1 || string(m.data) != "m" || !m.relayed {
		t.Errorf("%+v is taken", m)
	}
	return to
}

// FuzzRelay: whatever comes, what is taken is for some members, each once.
func FuzzRelay(f *testing.F) {
	f.Add(appendRelay([]uint32{1, 2, 300}, []byte("message")))
	f.Add([]byte{2, 3, 3})
	f.Fuzz(func(t *testing.T, frame []byte) {
		targets, data, err := decodeRelay(frame)
		if err != nil {
			return
		}
		if len(targets) == 0 || len(targets) > relayTargetsMax || len(data) > len(frame) {
			t.Fatalf("%d members", len(targets))
		}
		again, same, err := decodeRelay(appendRelay(targets, data))
		if err != nil || !slices.Equal(again, targets) || !bytes.Equal(same, data) {
			t.Fatalf("%v is read again as %v: %v", targets, again, err)
		}
	})
}
