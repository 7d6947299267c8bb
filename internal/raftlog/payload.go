package raftlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// formatVersion is in every segment's head. Raise it when a reader of the old format would
// misread the new one.
const formatVersion = 1

const (
	entryFixedBytes = 17 // index 8, term 8, type 1
	hardStateBytes  = 24
)

var errPayload = errors.New("record payload does not decode")

// hardState is pb.HardState as a value.
type hardState struct{ term, vote, commit uint64 }

// confAt is the configuration state after the entry at index was applied.
type confAt struct {
	index uint64
	conf  *pb.ConfState
}

// base is the position before the first live entry.
type base struct {
	index, term uint64
	conf        *pb.ConfState
}

// head is the payload of a segment's first record.
type head struct {
	seq     uint64
	cluster string
	member  uint64
	last    uint64 // last index of the log when the segment began
	hs      hardState
	base    base
	confs   []confAt // after base, ascending
}

func appendEntryFixed(dst []byte, e *pb.Entry) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, e.GetIndex())
	dst = binary.LittleEndian.AppendUint64(dst, e.GetTerm())
	return append(dst, byte(e.GetType()))
}

// decodeEntry copies the data, so the entry outlives the buffer.
func decodeEntry(p []byte) (*pb.Entry, error) {
	if len(p) < entryFixedBytes {
		return nil, errPayload
	}
	e := &pb.Entry{
		Index: new(binary.LittleEndian.Uint64(p)),
		Term:  new(binary.LittleEndian.Uint64(p[8:])),
		Type:  new(pb.EntryType(p[16])),
	}
	if len(p) > entryFixedBytes {
		e.Data = slices.Clone(p[entryFixedBytes:])
	}
	return e, nil
}

func appendHardState(dst []byte, h hardState) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, h.term)
	dst = binary.LittleEndian.AppendUint64(dst, h.vote)
	return binary.LittleEndian.AppendUint64(dst, h.commit)
}

func decodeHardState(p []byte) (hardState, error) {
	r := reader{b: p}
	h := r.hardState()
	return h, r.end()
}

func appendConf(dst []byte, c *pb.ConfState) []byte {
	b, err := proto.Marshal(c)
	if err != nil {
		panic(fmt.Sprintf("raftlog: a ConfState does not marshal: %v", err)) // plain integers: cannot happen
	}
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(b)))
	return append(dst, b...)
}

func appendConfAt(dst []byte, c confAt) []byte {
	return appendConf(binary.LittleEndian.AppendUint64(dst, c.index), c.conf)
}

func decodeConfAt(p []byte) (confAt, error) {
	r := reader{b: p}
	c := r.confAt()
	return c, r.end()
}

// appendBase encodes a compaction position; restart says that all entries were dropped,
// also later ones.
func appendBase(dst []byte, b base, restart bool) []byte {
	flag := byte(0)
	if restart {
		flag = 1
	}
	dst = append(dst, flag)
	dst = binary.LittleEndian.AppendUint64(dst, b.index)
	dst = binary.LittleEndian.AppendUint64(dst, b.term)
	return appendConf(dst, b.conf)
}

func decodeBase(p []byte) (b base, restart bool, err error) {
	r := reader{b: p}
	flag := r.byte()
	b = base{index: r.u64(), term: r.u64(), conf: r.conf()}
	if flag > 1 {
		return base{}, false, errPayload
	}
	return b, flag == 1, r.end()
}

func appendHead(dst []byte, h head) []byte {
	dst = append(dst, formatVersion)
	dst = binary.LittleEndian.AppendUint64(dst, h.seq)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(h.cluster)))
	dst = append(dst, h.cluster...)
	dst = binary.LittleEndian.AppendUint64(dst, h.member)
	dst = binary.LittleEndian.AppendUint64(dst, h.last)
	dst = appendHardState(dst, h.hs)
	dst = appendBase(dst, h.base, false)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(h.confs)))
	for _, c := range h.confs {
		dst = appendConfAt(dst, c)
	}
	return dst
}

func decodeHead(p []byte) (head, error) {
	r := reader{b: p}
	if v := r.byte(); r.err == nil && v != formatVersion {
		return head{}, fmt.Errorf("format version %d is not known to this program (it knows %d): use the version of "+
			"Tutti that wrote it", v, formatVersion)
	}
	h := head{seq: r.u64(), cluster: string(r.bytes(r.u32())), member: r.u64(), last: r.u64(), hs: r.hardState()}
	r.byte() // restart flag, has no meaning in a head
	h.base = base{index: r.u64(), term: r.u64(), conf: r.conf()}
	n := r.u32()
	for i := uint32(0); i < n && r.err == nil; i++ {
		h.confs = append(h.confs, r.confAt())
	}
	return h, r.end()
}

// reader takes values off the front of b; the first failure sticks.
type reader struct {
	b   []byte
	err error
}

func (r *reader) bytes(n uint32) []byte {
	if r.err != nil || uint64(n) > uint64(len(r.b)) {
		r.err = errPayload
		return nil
	}
	p := r.b[:n]
	r.b = r.b[n:]
	return p
}

func (r *reader) byte() byte {
	if p := r.bytes(1); p != nil {
		return p[0]
	}
	return 0
}

func (r *reader) u32() uint32 {
	if p := r.bytes(4); p != nil {
		return binary.LittleEndian.Uint32(p)
	}
	return 0
}

func (r *reader) u64() uint64 {
	if p := r.bytes(8); p != nil {
		return binary.LittleEndian.Uint64(p)
	}
	return 0
}

func (r *reader) hardState() hardState {
	return hardState{term: r.u64(), vote: r.u64(), commit: r.u64()}
}

func (r *reader) conf() *pb.ConfState {
	c := &pb.ConfState{}
	p := r.bytes(r.u32())
	if r.err == nil && proto.Unmarshal(p, c) != nil {
		r.err = errPayload
	}
	return c
}

func (r *reader) confAt() confAt { return confAt{index: r.u64(), conf: r.conf()} }

func (r *reader) end() error {
	if r.err == nil && len(r.b) > 0 {
		return errPayload
	}
	return r.err
}
