package transport

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestFacts: each member hears the other's facts before any frame, also where it is refused.
func TestFacts(t *testing.T) {
	var refuses atomic.Uint32 // the member that does not talk to the other one
	var heard [3]atomic.Value
	one, two := strangers(t, func(o *Options, _ *timing) {
		self := o.Self
		o.Facts = func() []byte { return fmt.Append(nil, "facts of ", self) }
		o.Judge = func(member uint32, facts []byte) error {
			heard[self].Store(fmt.Sprint(member, " ", string(facts)))
			if refuses.Load() == self {
				return errors.New("it is Monday")
			}
			return nil
		}
	})
	eventually(t, "connections", func() bool { return one.Stats()[2].Connected && two.Stats()[1].Connected })
	for self, want := range map[int]string{1: "2 facts of 2", 2: "1 facts of 1"} {
		if got := heard[self].Load(); got != want {
			t.Errorf("member %d heard %q, want %q", self, got, want)
		}
	}
	refuses.Store(2)
	one.Renew()
	two.Renew()
	eventually(t, "no connection", func() bool { return !one.Stats()[2].Connected && !two.Stats()[1].Connected })
	eventually(t, "both know why", func() bool {
		return one.logs.count("member 2 refuses this member: it is Monday") > 0 &&
			two.logs.count("member 1 is refused: it is Monday") > 0
	})
	if one.Send(2, []byte("x")) || two.Send(1, []byte("x")) {
		t.Error("a frame was taken for a member that is not talked to")
	}
	refuses.Store(0)
	eventually(t, "connections", func() bool { return one.Stats()[2].Connected && two.Stats()[1].Connected })
}

// TestRenew: what a member says of itself later is heard before a later frame.
func TestRenew(t *testing.T) {
	var says atomic.Int64
	var last atomic.Value
	type got struct{ facts, frame string }
	frames := make(chan got, 1000)
	one, two := strangers(t, func(o *Options, _ *timing) {
		if o.Self == 1 {
			o.Facts = func() []byte { return fmt.Append(nil, says.Load()) }
			return
		}
		o.Judge = func(_ uint32, facts []byte) error { last.Store(string(facts)); return nil }
		o.Handler = func(_ uint32, frame []byte) { frames <- got{last.Load().(string), string(frame)} }
	})
	_ = two
	for n := range int64(20) {
		eventually(t, "a connection", func() bool { return one.Send(2, fmt.Append(nil, n)) })
		says.Store(n + 1)
		one.Renew()
		eventually(t, "a connection", func() bool { return one.Send(2, fmt.Append(nil, n+1)) })
	}
	for deadline := time.After(time.Minute); ; {
		select {
		case <-time.After(10 * time.Millisecond):
			one.Send(2, []byte("20")) // the one before may have been lost with its connection

		case g := <-frames:
			if len(g.facts) < len(g.frame) || len(g.facts) == len(g.frame) && g.facts < g.frame {
				t.Fatalf("frame %s was taken after facts %s", g.frame, g.facts)
			}
			if g.frame == "20" {
				return
			}
		case <-deadline:
			t.Fatal("the last frame does not come")
		}
	}
}

// Whatever a member that has proved itself says, the other one neither hangs nor takes more than it may.
func TestBadFacts(t *testing.T) {
	m := lone(t, func(o *Options, tm *timing) {
		tm.handshake = 300 * time.Millisecond
		o.Judge = func(_ uint32, facts []byte) error {
			if len(facts) == 0 {
				return errors.New("no facts")
			}
			return nil
		}
	})
	for name, sent := range map[string][]byte{
		"nothing":     nil,
		"half":        {9, 0, 0, 0, 'x'},
		"too long":    {255, 255, 255, 255},
		"empty":       {0, 0, 0, 0, 0, 0, 0, 0},
		"no judgment": {1, 0, 0, 0, 'x'},
	} {
		c := dialTo(t, m)
		if err := dialHandshake(c, hello{from: 2, to: 1, cluster: "c1"}, secret); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write(sent); err != nil {
			t.Fatal(err)
		}
		b := expectClosed(t, c)
		if refused := strings.Contains(string(b), "no facts"); refused != (name == "empty") {
			t.Errorf("%s: %q", name, b)
		}
		if m.Stats()[2].Incoming {
			t.Errorf("%s: the connection counts", name)
		}
	}
}

// Judgements are cut where they are too long, on both sides alike.
func TestLongJudgement(t *testing.T) {
	var b bytes.Buffer
	if err := writeText(&b, reason(errors.New(strings.Repeat("x", 2*judgementBytesMax)))); err != nil {
		t.Fatal(err)
	}
	got, err := readText(&b, judgementBytesMax)
	if err != nil || len(got) != judgementBytesMax {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if _, err := readText(&b, 1); !errors.Is(err, io.EOF) {
		t.Errorf("then %v", err)
	}
}
