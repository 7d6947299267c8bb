package raftlog

import (
	"bytes"
	"encoding/hex"
	"errors"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"
)

// goldenHead and goldenEntry were written by format version 1 and must stay readable.
const (
	goldenEntry = "d702180000003c00000000000000b0cf1672a52a000000000000000500000000000000007061796c6f616460916718a5"
	goldenHead  = "01030000000000000002000000633107000000000000002900000000000000040000000000000009000000000000002800000000000000000a0000000000000002000000000000000400000008070808010000000c00000000000000020000000807"
)

func testHead() head {
	return head{
		seq: 3, cluster: "c1", member: 7, last: 41, hs: hardState{term: 4, vote: 9, commit: 40},
		base:  base{index: 10, term: 2, conf: &pb.ConfState{Voters: []uint64{7, 8}}},
		confs: []confAt{{index: 12, conf: &pb.ConfState{Voters: []uint64{7}}}},
	}
}

func TestGoldenBytes(t *testing.T) {
	b := appendRecord(nil, 3, 100, 60, recordEntry, appendEntryFixed(nil, entry(42, 5, "")), []byte("payload"))
	if got := hex.EncodeToString(b); got != goldenEntry {
		t.Errorf("an entry record is %s", got)
	}
	old, err := hex.DecodeString(goldenEntry)
	must(t, err)
	r, err := decodeRecord(old, 3, 100)
	must(t, err)
	e, err := decodeEntry(r.payload)
	must(t, err)
	if r.durable != 60 || r.kind != recordEntry || e.GetIndex() != 42 || e.GetTerm() != 5 ||
		string(e.GetData()) != "payload" {
		t.Errorf("decoded %+v, %v", r, e)
	}
	if old, err = hex.DecodeString(goldenHead); err != nil {
		t.Fatal(err)
	}
	h, err := decodeHead(old)
	must(t, err)
	if h.seq != 3 || h.cluster != "c1" || h.member != 7 || h.last != 41 || h.hs != (hardState{4, 9, 40}) ||
		h.base.index != 10 || len(h.confs) != 1 || h.confs[0].index != 12 {
		t.Errorf("decoded %+v from %x", h, appendHead(nil, testHead()))
	}
	if _, err := decodeHead(append([]byte{2}, old[1:]...)); err == nil || errors.Is(err, errPayload) {
		t.Errorf("format version 2: %v", err)
	}
}

func FuzzDecodeRecord(f *testing.F) {
	good := appendRecord(nil, 1, 512, 100, recordEntry, appendEntryFixed(nil, entry(5, 2, "")), []byte("data"))
	f.Add(good, uint64(1), int64(512))
	f.Add(good[:20], uint64(1), int64(512))
	f.Add(make([]byte, 30), uint64(1), int64(0))
	f.Add(appendRecord(nil, 2, 0, 0, recordHead, appendHead(nil, testHead()), nil), uint64(2), int64(0))
	f.Add(appendRecord(nil, 2, 9, 5, recordBase, appendBase(nil, testHead().base, true), nil), uint64(2), int64(9))
	f.Fuzz(func(t *testing.T, b []byte, seq uint64, off int64) {
		if off < 0 {
			off = -(off + 1)
		}
		r, err := decodeRecord(b, seq, off)
		if err != nil {
			if !errors.Is(err, errZero) && !errors.Is(err, errTorn) && !errors.Is(err, errDamaged) {
				t.Fatalf("error %v", err)
			}
			return
		}
		again := appendRecord(nil, seq, off, r.durable, r.kind, r.payload, nil)
		if !bytes.Equal(again, b[:r.size]) {
			t.Fatalf("decoded and encoded again:\n%x\n%x", b[:r.size], again)
		}
	})
}

func FuzzDecodePayload(f *testing.F) {
	f.Add(appendHead(nil, testHead()))
	f.Add(appendBase(nil, testHead().base, true))
	f.Add(appendConfAt(nil, testHead().confs[0]))
	f.Add(appendHardState(nil, hardState{1, 2, 3}))
	f.Add(appendEntryFixed(nil, entry(1, 1, "")))
	f.Fuzz(func(t *testing.T, p []byte) {
		if e, err := decodeEntry(p); err == nil && !bytes.Equal(append(appendEntryFixed(nil, e), e.GetData()...), p) {
			t.Fatalf("entry %v from %x", e, p)
		}
		if h, err := decodeHardState(p); err == nil && !bytes.Equal(appendHardState(nil, h), p) {
			t.Fatalf("hard state %v from %x", h, p)
		}
		if h, err := decodeHead(p); err == nil {
			if again, err := decodeHead(appendHead(nil, h)); err != nil || again.last != h.last ||
				len(again.confs) != len(h.confs) {
				t.Fatalf("head %v from %x: %v", h, p, err)
			}
		}
		if b, restart, err := decodeBase(p); err == nil {
			if again, r, err := decodeBase(appendBase(nil, b, restart)); err != nil || r != restart ||
				again.index != b.index {
				t.Fatalf("base %v from %x: %v", b, p, err)
			}
		}
		if c, err := decodeConfAt(p); err == nil {
			if again, err := decodeConfAt(appendConfAt(nil, c)); err != nil || again.index != c.index {
				t.Fatalf("conf %v from %x: %v", c, p, err)
			}
		}
	})
}
