package notices

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/metrics"
)

func newOutbox(max int) *outbox {
	o := &outbox{}
	o.init(max, &metrics.Notify{})
	return o
}

// taken is everything an outbox holds, item by item.
func (o *outbox) all(t *testing.T) (items [][]notification) {
	t.Helper()
	for payload := o.take(); payload != nil; payload = o.take() {
		ns, err := decodeNotifications(payload)
		if err != nil {
			t.Fatal(err)
		}
		items = append(items, ns)
	}
	return items
}

// TestOutbox: notifications come out as they were put in, equal ones too, in items of a bounded size.
func TestOutbox(t *testing.T) {
	o := newOutbox(1 << 23)
	var want []notification
	for i := range 200 {
		n := notification{fmt.Sprintf("c%d", i%3), strings.Repeat("é", i*19)}
		want = append(want, n, n)
	}
	want = append(want, notification{`Ä "x"`, ""})
	for _, n := range want {
		if !o.put(n) {
			t.Fatalf("%d bytes are too many", o.size())
		}
	}
	var got []notification
	for _, item := range o.all(t) {
		bytes := 0
		for _, n := range item {
			bytes += len(n.channel) + len(n.payload)
		}
		if bytes > chunkBytesMax {
			t.Errorf("one item has %d bytes", bytes)
		}
		got = append(got, item...)
	}
	if !reflect.DeepEqual(got, want) || o.size() != 0 || o.counts.Refused.Load() != 0 {
		t.Errorf("%d notifications came out of %d, %d bytes are left, %d were dropped", len(got), len(want), o.size(),
			o.counts.Refused.Load())
	}
}

// TestOutboxFull: what does not fit is dropped and counted, and there is room again afterwards.
func TestOutboxFull(t *testing.T) {
	o := newOutbox(1000)
	put := 0
	for o.put(notification{"c", "0123456789"}) {
		put++
	}
	if put == 0 || put > 1000/11 || o.counts.Refused.Load() != 1 {
		t.Errorf("%d notifications of 11 bytes fit in 1000 bytes, %d were dropped", put, o.counts.Refused.Load())
	}
	if got := o.all(t); len(got) != 1 || len(got[0]) != put || !o.put(notification{"c", "x"}) {
		t.Errorf("%d items came out", len(got))
	}
}

func FuzzDecodeNotifications(f *testing.F) {
	o := newOutbox(1000)
	o.put(notification{"a", "b"})
	o.put(notification{"ä", ""})
	f.Add(o.take())
	f.Add([]byte{notifyVersion, 0})
	f.Add([]byte("\x01\x02\x010\x00\x00\x80\x00")) // the second has an empty channel, its length in two bytes
	f.Add([]byte{notifyVersion, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Add([]byte{2})
	f.Fuzz(func(t *testing.T, data []byte) {
		ns, err := decodeNotifications(data)
		if err != nil {
			return
		}
		o := newOutbox(1 << 30)
		for _, n := range ns {
			o.put(n)
		}
		var again []notification
		for _, item := range o.all(t) {
			again = append(again, item...)
		}
		if len(again) != len(ns) || len(ns) > 0 && !reflect.DeepEqual(again, ns) {
			t.Fatalf("%q became %q", ns, again)
		}
	})
}

func FuzzDecodeChannels(f *testing.F) {
	f.Add(encodeChannels([]string{"a", `Ä "b"`}, []string{"c"}))
	f.Add(encodeChannels(nil, nil))
	f.Add([]byte{channelsVersion, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Add([]byte{2})
	f.Fuzz(func(t *testing.T, data []byte) {
		add, remove, err := decodeChannels(data)
		if err != nil {
			return
		}
		add2, remove2, err := decodeChannels(encodeChannels(add, remove))
		if err != nil || !slices.Equal(add, add2) || !slices.Equal(remove, remove2) {
			t.Fatalf("%q %q became %q %q, %v", add, remove, add2, remove2, err)
		}
	})
}

// TestPublisherFoldsNothing: PostgreSQL folds equal notifications of one transaction, so equal ones
// never share one.
func TestPublisherFoldsNothing(t *testing.T) {
	p := &publisher{max: 1 << 20, filled: make(chan struct{}, 1), emptied: make(chan struct{}, 1)}
	var all, got []notification
	for i := range 3000 {
		all = append(all, notification{"c", fmt.Sprint(i / 2 % 50)})
	}
	if err := p.put(context.Background(), append(all, notification{"other", ""}),
		func(c string) bool { return c == "c" }); err != nil {
		t.Fatal(err)
	}
	for {
		channels, payloads := p.take()
		if len(channels) == 0 {
			break
		}
		seen := map[string]bool{}
		for i, payload := range payloads {
			if seen[payload] || channels[i] != "c" {
				t.Fatalf("a transaction notifies %q of channel %q, again or for nobody", payload, channels[i])
			}
			seen[payload] = true
			got = append(got, notification{channels[i], payload})
		}
	}
	if !reflect.DeepEqual(got, all) || p.bytes != 0 {
		t.Errorf("%d of %d notifications came out, %d bytes are left", len(got), len(all), p.bytes)
	}
}

// TestPublisherWaits: a full queue holds up who puts, and nothing is lost.
func TestPublisherWaits(t *testing.T) {
	p := &publisher{max: 200, filled: make(chan struct{}, 1), emptied: make(chan struct{}, 1)}
	var all []notification
	for i := range 100 {
		all = append(all, notification{"c", fmt.Sprint(i)})
	}
	done := make(chan error, 1)
	go func() { done <- p.put(t.Context(), all, func(string) bool { return true }) }()
	for n := 0; n < len(all); {
		_, payloads := p.take()
		for _, x := range payloads {
			if x != fmt.Sprint(n) {
				t.Fatalf("got %s for %d", x, n)
			}
			n++
		}
		if len(payloads) == 0 {
			time.Sleep(time.Millisecond)
		}
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func newChannels(self uint32, max int) *channels {
	c := &channels{}
	c.init(self, max)
	return c
}

// TestChannelsDifference: the order is told what changed, once; what an earlier life left is taken back.
func TestChannelsDifference(t *testing.T) {
	c := newChannels(1, 10)
	c.change(1, []string{"left", "kept"}, nil)
	c.replace(nil, []string{"kept", "new"})
	c.begin(7)
	want := func(add, remove string) {
		t.Helper()
		a, r := c.difference()
		if strings.Join(a, " ") != add || strings.Join(r, " ") != remove {
			t.Errorf("add %q, remove %q; want %q, %q", a, r, add, remove)
		}
	}
	want("new", "left")
	want("", "")
	if since, ok := c.await([]string{"kept"}, time.Hour, func(uint64) bool { return true }); since != 7 || !ok {
		t.Errorf("what an earlier life announced is known since %d, %v", since, ok)
	}
	if since, ok := c.await([]string{"kept", "new"}, time.Millisecond, func(uint64) bool { return true }); since != 0 ||
		ok {
		t.Errorf("what was not carried out yet is known since %d, %v", since, ok)
	}
	c.carried(9, []string{"new"})
	if since, ok := c.await([]string{"kept", "new"}, time.Hour,
		func(since uint64) bool { return since == 9 }); since != 9 || !ok {
		t.Errorf("what was carried out is known since %d, %v", since, ok)
	}
	c.replace(nil, []string{"new"})              // a second session
	c.replace([]string{"kept", "new"}, nil)      // the first one ends
	c.replace([]string{"new"}, []string{"more"}) // the second one turns to another
	want("more", "kept new")
	if !c.heard("more") || c.heard("new") || c.count() != 1 {
		t.Error("who listens is counted wrongly")
	}
}

// TestChannelsForeign: the listener listens to what others do, as long as one of them does.
func TestChannelsForeign(t *testing.T) {
	c := newChannels(1, 10)
	for i, x := range []struct {
		member           uint32
		add, remove      []string
		listen, unlisten string
	}{
		{1, []string{"own"}, nil, "", ""},
		{2, []string{"a", "b"}, nil, "a b", ""},
		{2, []string{"a"}, nil, "", ""}, // again, after a restart
		{3, []string{"a", "own"}, nil, "own", ""},
		{2, nil, []string{"a", "b", "c"}, "", "b"},
		{2, nil, []string{"a"}, "", ""},
		{3, nil, []string{"a"}, "", "a"},
		{3, []string{"b"}, []string{"own"}, "b", "own"},
	} {
		listen, unlisten := c.change(x.member, x.add, x.remove)
		if strings.Join(listen, " ") != x.listen || strings.Join(unlisten, " ") != x.unlisten {
			t.Errorf("step %d: listen to %q, no longer to %q; want %q, %q", i, listen, unlisten, x.listen, x.unlisten)
		}
	}
}

// TestChannelsFull: a channel too many is refused, one that is used already is not.
func TestChannelsFull(t *testing.T) {
	c := newChannels(1, 2)
	c.replace(nil, []string{"a", "b"})
	if !c.full([]string{"a", "c"}) || c.full([]string{"a"}) {
		t.Error("the limit of 2 channels is not kept")
	}
	c.replace([]string{"a", "b"}, []string{"b"})
	if c.full([]string{"c"}) {
		t.Error("a place that is free again is not given away")
	}
}

// TestListenAwaits: LISTEN waits longer for members that are busy than for those of which nothing comes.
func TestListenAwaits(t *testing.T) {
	quick, most := listenWait, listenMost
	listenWait, listenMost = 50*time.Millisecond, time.Second
	t.Cleanup(func() { listenWait, listenMost = quick, most })
	for _, x := range []struct {
		name        string
		knows       time.Duration // after so long
		busy, warns bool
	}{
		{"one that is silent", time.Hour, false, true},
		{"one that is busy", 300 * time.Millisecond, true, false},
		{"one that is busy for long", time.Hour, true, true},
	} {
		began := time.Now()
		n := Notices{o: Options{
			Waits: &metrics.Waits{}, Ending: func() bool { return false },
			Lacking: func(uint64) []string {
				if time.Since(began) < x.knows {
					return []string{"b"}
				}
				return nil
			},
			Lagging: func(uint64) bool { return x.busy },
		}}
		n.channels.init(1, 10)
		n.channels.change(1, []string{"a"}, nil)
		n.channels.begin(7)
		e := n.Await(nil, []string{"a"})
		if took := time.Since(began); (e != nil) != x.warns || !x.busy && took > listenMost/2 {
			t.Errorf("%s: after %s it is told %v", x.name, took, e)
		}
	}
}
