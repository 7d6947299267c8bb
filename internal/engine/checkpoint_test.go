package engine

import (
	"bytes"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"reflect"
	"slices"
	"strings"
	"testing"

	"encoding/binary"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/tuttidb/tutti/internal/certify"
	"github.com/tuttidb/tutti/internal/writeset"
)

// drawLog is a log as members may write it: batches in order, late, twice and missing; of several
// lives; payloads in parts, some of which never end; statements, and bytes that are no writeset.
func drawLog(t *rapid.T) [][]byte {
	type life struct{ incarnation, number, parts uint64 }
	lives := map[uint32]life{2: {1, 0, 0}, 3: {1, 0, 0}}
	var log [][]byte
	for i := range rapid.IntRange(1, 50).Draw(t, "entries") {
		m := rapid.SampledFrom([]uint32{2, 3}).Draw(t, "member")
		s := lives[m]
		switch what := rapid.IntRange(0, 9).Draw(t, "batch"); {
		case what == 0 && len(log) > 0:
			log = append(log, rapid.SampledFrom(log).Draw(t, "again"))
			continue
		case what == 1:
			s = life{s.incarnation + 1, 0, 0}
		}
		s.number++
		b := batch{Member: m, Incarnation: s.incarnation, Number: s.number}
		for j := range rapid.IntRange(1, 3).Draw(t, "items") {
			it := Item{Kind: rapid.SampledFrom([]Kind{KindCertified, KindCertified, KindCertified, KindStatement,
				KindFence, KindPart, KindSerial}).Draw(t, "kind"),
				ID: writeset.TxID{Member: m, Incarnation: s.incarnation, Seq: uint64(100*i + j)}, Slot: uint32(j)}
			it.Base = rapid.Uint64Range(0, uint64(i+2)).Draw(t, "base")
			it.SharedBase = rapid.Uint64Range(0, it.Base).Draw(t, "shared base")
			w := writeset.Writeset{}
			for range rapid.IntRange(0, 3).Draw(t, "keys") {
				w.Keys = append(w.Keys, writeset.Key{Hash: rapid.Uint64Range(1, 8).Draw(t, "key"),
					Mode: writeset.Mode(rapid.IntRange(1, 4).Draw(t, "mode"))})
			}
			w.Tables = []writeset.Table{{Schema: "s", Name: "t"}}
			it.Payload = w.Append(nil)
			if it.Kind == KindSerial {
				it.Payload = []byte{byte(rapid.IntRange(0, 1).Draw(t, "runs"))}
			}
			if it.Kind == KindCertified && rapid.Bool().Draw(t, "vouched") {
				it.ReadBase = it.Base + rapid.Uint64Range(0, 2).Draw(t, "read base")
				it.LockBase = it.Base + rapid.Uint64Range(0, 2).Draw(t, "lock base")
			}
			if it.Kind == KindPart {
				it.Payload = it.Payload[:rapid.IntRange(1, len(it.Payload)).Draw(t, "cut")]
				if s.parts == 0 {
					s.parts = it.ID.Seq
				}
				it.ID.Seq = s.parts
			} else if s.parts > 0 && rapid.Bool().Draw(t, "ends") {
				it.ID.Seq, s.parts = s.parts, 0
			}
			b.Items = append(b.Items, it)
		}
		lives[m] = s
		log = append(log, b.append(nil))
	}
	return log
}

// mayDeliver is an engine that is only given entries.
func mayDeliver(o Options) *Engine {
	s := raft.NewMemoryStorage()
	if err := s.ApplySnapshot(&pb.Snapshot{Metadata: &pb.SnapshotMetadata{ConfState: &pb.ConfState{Voters: []uint64{1}},
		Index: new(uint64), Term: new(uint64)}}); err != nil {
		panic(err)
	}
	o.Order.Storage = s
	e, err := New(o)
	if err != nil {
		panic(err)
	}
	return e
}

// TestCheckpointAndTail: whatever the log, an engine that starts from a checkpoint and takes in the
// rest comes to the same tasks and to the same state as one that took in all; and that state
// has the same bytes at members whose databases are differently far (E10).
func TestCheckpointAndTail(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log := drawLog(t)
		at := rapid.IntRange(1, len(log)).Draw(t, "checkpoint at")
		cert := certify.Options{KeysMax: rapid.IntRange(1, 30).Draw(t, "keys max")}
		whole := mayDeliver(Options{Member: 1, Incarnation: 1, Certify: cert})
		other := mayDeliver(Options{Member: 3, Incarnation: 99, Certify: cert,
			Position: Position{Ordinal: 7, Floor: 5}})
		var c *Checkpoint
		if rapid.Bool().Draw(t, "configured") {
			whole.log.configure(&pb.ConfState{Voters: []uint64{1, 2}, Learners: []uint64{3}})
			other.log.configure(whole.log.conf)
		}
		for i, data := range log {
			whole.deliver(uint64(i+1), data)
			other.deliver(uint64(i+1), data)
			if i+1 == at {
				c = whole.log.checkpoint(uint64(at), 1)
				if !bytes.Equal(c.Append(nil), other.log.checkpoint(uint64(at), 1).Append(nil)) {
					t.Fatal("two members made different checkpoints of the same entry")
				}
			}
		}
		data := c.Append(nil)
		c, err := DecodeCheckpoint(data)
		if err != nil {
			t.Fatal(err)
		}
		if want := whole.log.conf; (want == nil) != (c.Conf() == nil) || want != nil && !proto.Equal(want, c.Conf()) {
			t.Fatalf("%v vote, and it says %v", want, c.Conf())
		}
		tail := mayDeliver(Options{Member: 1, Incarnation: 2, Certify: cert})
		restore(tail, c)
		if tail.Applied() != c.Ordinal || tail.Ordinal() != c.Ordinal {
			t.Fatalf("restored at ordinal %d, applied %d", tail.Ordinal(), tail.Applied())
		}
		for i, data := range log[at:] {
			tail.deliver(uint64(at+i+1), data)
		}
		if a, b := whole.log.checkpoint(9, 1).Append(nil), tail.log.checkpoint(9, 1).Append(nil); !bytes.Equal(a, b) {
			t.Fatalf("the states differ:\n%x\n%x", a, b)
		}
		after := slices.IndexFunc(whole.queue.queue, func(t Task) bool { return t.Ordinal > c.Ordinal })
		if after < 0 {
			after = len(whole.queue.queue)
		}
		if a, b := whole.queue.queue[after:], tail.queue.queue; len(a) != len(b) ||
			len(a) > 0 && !reflect.DeepEqual(a, b) {
			t.Fatalf("the tasks differ:\n%+v\n%+v", a, b)
		}
	})
}

// golden is kept for ever: what version 1 looked like.
const golden = "010502030702020304000301020470617274000203010202010201010201000000000000000302000000000000000102030103010400000000000000022e932a2a"

func goldenCheckpoint() *Checkpoint {
	z := certify.New(certify.Options{})
	tx := func(ordinal uint64, member uint32, keys ...writeset.Key) {
		z.Certify(ordinal, certify.Transaction{ID: writeset.TxID{Member: member, Incarnation: 1, Seq: ordinal},
			Base: ordinal - 1, SharedBase: ordinal - 1,
			Writeset: &writeset.Writeset{Keys: keys}})
	}
	tx(1, 2, writeset.Key{Hash: 1, Mode: writeset.Exclusive}, writeset.Key{Hash: 2, Mode: writeset.Shared})
	z.SetBarrier(2, writeset.TxID{Member: 3, Incarnation: 1, Seq: 2})
	tx(3, 3, writeset.Key{Hash: 4, Mode: writeset.Update})
	return &Checkpoint{Index: 5, Term: 2, Ordinal: 3, volume: 7, cert: z.Checkpoint(),
		sources: []memberSource{{2, source{incarnation: 3, number: 4}},
			{3, source{incarnation: 1, number: 2, parts: []byte("part")}}}}
}

func TestCheckpointGolden(t *testing.T) {
	data := goldenCheckpoint().Append(nil)
	if got := hex.EncodeToString(data); got != golden {
		t.Errorf("%s\nwant %s", got, golden)
	}
	if _, err := DecodeCheckpoint(data); err != nil {
		t.Error(err)
	}
}

// TestCheckpointDamage: no byte may be changed, missing or added.
func TestCheckpointDamage(t *testing.T) {
	data := goldenCheckpoint().Append(nil)
	for i := range data {
		for _, bad := range [][]byte{slices.Concat(data[:i], []byte{data[i] ^ 0x10}, data[i+1:]), data[:i],
			slices.Concat(data[:i], []byte{0}, data[i:])} {
			if _, err := DecodeCheckpoint(bad); !errors.Is(err, ErrCheckpoint) {
				t.Fatalf("%x: %v", bad, err)
			}
		}
	}
	if _, err := DecodeCheckpoint(append([]byte{9}, data[1:]...)); err == nil ||
		!strings.Contains(err.Error(), "version 9") {
		t.Errorf("another version: %v", err)
	}
}

// FuzzDecodeCheckpoint gives every input a right checksum, so that what lies behind it is reached.
func FuzzDecodeCheckpoint(f *testing.F) {
	data := goldenCheckpoint().Append(nil)
	f.Add(data[:len(data)-crc32.Size])
	configured := goldenCheckpoint()
	configured.conf = &pb.ConfState{Voters: []uint64{1, 2}, Learners: []uint64{3}}
	data = configured.Append(nil)
	f.Add(data[:len(data)-crc32.Size])
	f.Add([]byte{checkpointVersion, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, body []byte) {
		data := binary.LittleEndian.AppendUint32(slices.Clone(body), crc32.Checksum(body, castagnoli))
		c, err := DecodeCheckpoint(data)
		if err != nil {
			if !errors.Is(err, ErrCheckpoint) {
				t.Fatal(err)
			}
			return
		}
		if !bytes.Equal(c.Append(nil), data) {
			t.Fatal("what was read is written differently")
		}
		restore(mayDeliver(Options{Member: 1}), c)
	})
}

// TestFit: which logs go with a checkpoint of entry 5 of term 2.
func TestFit(t *testing.T) {
	c := &Checkpoint{Index: 5, Term: 2}
	for _, x := range []struct {
		what       string
		c          *Checkpoint
		base, last uint64 // entries (base, last], of the given term
		term       uint64
		foreign    bool
		restart    bool
		wrong      string
	}{
		{"the whole log", c, 0, 9, 2, false, false, ""},
		{"compacted up to it", c, 5, 9, 2, false, false, ""},
		{"ends with it", c, 3, 5, 2, false, false, ""},
		{"compacted behind it", c, 6, 9, 2, false, false, "entries 6 to 6 are missing"},
		{"compacted behind it, a clone", c, 6, 9, 2, true, false, "entries 6 to 6 are missing"},
		{"shorter", c, 0, 4, 2, false, false, "has lost entries"},
		{"shorter, a clone", c, 0, 4, 2, true, true, ""},
		{"empty, a clone", c, 0, 0, 2, true, true, ""},
		{"another entry there", c, 0, 9, 1, false, false, "has lost entries"},
		{"another entry there, a clone", c, 0, 9, 1, true, true, ""},
		{"no checkpoint, the whole log", nil, 0, 9, 1, false, false, ""},
		{"no checkpoint, compacted", nil, 1, 9, 1, false, false, "has no checkpoint"},
	} {
		s := raft.NewMemoryStorage()
		if err := s.ApplySnapshot(&pb.Snapshot{Metadata: &pb.SnapshotMetadata{
			ConfState: &pb.ConfState{Voters: []uint64{1}}, Index: new(x.base), Term: new(x.term)}}); err != nil {
			t.Fatal(err)
		}
		for i := x.base + 1; i <= x.last; i++ {
			if err := s.Append([]*pb.Entry{{Index: new(i), Term: new(x.term)}}); err != nil {
				t.Fatal(err)
			}
		}
		restart, err := x.c.Fit(s, x.foreign)
		if restart != x.restart || (err != nil) != (x.wrong != "") ||
			err != nil && !strings.Contains(err.Error(), x.wrong) {
			t.Errorf("%s: %v, %v", x.what, restart, err)
		}
	}
}

// TestCheckpointNeedsTheDatabase: an engine does not skip what the database may lack.
func TestCheckpointNeedsTheDatabase(t *testing.T) {
	for _, p := range []Position{{Ordinal: 3, Floor: 2}, {Ordinal: 2, Floor: 3}} {
		if _, err := New(Options{Member: 1, Incarnation: 1, Checkpoint: goldenCheckpoint(), Position: p}); err == nil ||
			!strings.Contains(err.Error(), "the database holds") {
			t.Errorf("%+v: %v", p, err)
		}
	}
}

// TestVotersOfTasks: a task says who votes where it stands, for those who begin an order there.
func TestVotersOfTasks(t *testing.T) {
	r := newReplicated(&Options{Member: 1})
	if at := r.place(&Item{}); at.Voters != nil {
		t.Errorf("%v vote where nothing was changed", at.Voters)
	}
	c := r.checkpoint(1, 1)
	c.conf = &pb.ConfState{Voters: []uint64{4, 1}, VotersOutgoing: []uint64{1, 2, 4}, Learners: []uint64{3}}
	r.restore(c, certify.Options{})
	if at := r.place(&Item{}); !slices.Equal(at.Voters, []uint32{1, 4}) {
		t.Errorf("%v vote", at.Voters)
	}
}
