package core

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/engine"
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
		return !slices.ContainsFunc(x.cores, func(c *Core) bool {
			return c.Ordinal() < seq || c.Applied() != c.Ordinal()
		})
	})
}

// TestRelayFrames: what is made is read again, and what nobody makes is refused.
func TestRelayFrames(t *testing.T) {
	targets, data, err := decodeRelay(appendRelay([]uint32{3, 300, 1<<32 - 1}, []byte("message")))
	if err != nil || !slices.Equal(targets, []uint32{3, 300, 1<<32 - 1}) || string(data) != "message" {
		t.Errorf("%v %q: %v", targets, data, err)
	}
	c, many := New(Options{Member: 2}), []uint32(nil)
	for len(many) <= relayTargetsMax {
		many = append(many, uint32(len(many))+3)
	}
	for _, frame := range [][]byte{
		nil, {0}, {1}, {2, 1}, {1, 0}, {2, 3, 3}, {relayTargetsMax + 1, 1}, {0x80}, appendRelay(many, nil),
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

// TestRelayBytes: where entries leave once for a site, clearly less travels between sites. What is counted are all
// messages of the order, with the header that transport gives each and the byte that says what it is.
func TestRelayBytes(t *testing.T) {
	for _, sites := range [][][]uint32{{{1, 2}, {3, 4}}, {{1, 2, 3}, {4, 5, 6}}} {
		with, without := bytesBetween(t, sites, true), bytesBetween(t, sites, false)
		t.Logf("sites %v: %.0f bytes a transaction with, %.0f without (%.2f)", sites, with, without, with/without)
		if with > 0.95*without {
			t.Errorf("sites %v: with and without it is nearly the same", sites)
		}
	}
}

// bytesBetween gives how much travels between sites for each transaction of 300 bytes while many are made at all
// members.
func bytesBetween(t *testing.T, sites [][]uint32, relays bool) float64 {
	const clients, each, payload, header = 8, 50, 300, 10
	all := slices.Concat(sites...)
	var bytes atomic.Int64
	count := func(m uint32, send func(to uint32, data []byte) bool) func(uint32, []byte) bool {
		return func(to uint32, data []byte) bool {
			if !slices.ContainsFunc(sites, func(s []uint32) bool {
				return slices.Contains(s, m) && slices.Contains(s, to)
			}) {
				bytes.Add(int64(len(data) + header))
			}
			return send(to, data)
		}
	}
	x := start(t, len(all), func(m uint32, o *Options) {
		o.Send, o.Relay, o.Relayed = count(m, o.Send), count(m, o.Relay), count(m, o.Relayed)
		if relays {
			o.Sites = func() [][]uint32 { return sites }
		}
	})
	until(t, "there is a leader", func() bool { return x.leader() != 0 })
	time.Sleep(4 * tick)
	bytes.Store(0)
	var writers sync.WaitGroup
	for i, c := range x.cores {
		for k := range clients {
			writers.Go(func() {
				for n := range each {
					if c.Order(context.Background(), engine.Submission{Kind: engine.KindNotify, Slot: uint32(k),
						Seq: uint64(i*clients*each + k*each + n + 1), Payload: make([]byte, payload)}); n%2 > 0 {
						time.Sleep(time.Millisecond)
					}
				}
			})
		}
	}
	writers.Wait()
	n := len(x.cores) * clients * each
	until(t, "all have all", func() bool {
		return !slices.ContainsFunc(x.cores, func(c *Core) bool { return c.Ordinal() < uint64(n) })
	})
	return float64(bytes.Load()) / float64(n)
}
