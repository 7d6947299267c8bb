package raftlog

// batch is a run of records that is written at once, into one segment.
type batch struct{ records []pending }

type pending struct {
	kind        recordType
	fixed, data []byte
}

func batchOf(kind recordType, payload []byte) batch {
	return batch{records: []pending{{kind: kind, fixed: payload}}}
}

func (b *batch) add(kind recordType, fixed, data []byte) {
	b.records = append(b.records, pending{kind: kind, fixed: fixed, data: data})
}

func (p pending) size() int64 { return int64(len(p.fixed)+len(p.data)) + recordOverhead }

func (b batch) size() int64 {
	var n int64
	for _, p := range b.records {
		n += p.size()
	}
	return n
}

// writeBufferKeep bounds the buffer that is kept between writes.
const writeBufferKeep = 4 << 20

func (l *Log) current() *segment { return l.segs[len(l.segs)-1] }

// write writes b behind the last record, in a new segment when this one would outgrow its
// size, and returns the offset of every record. Nothing is durable yet.
func (l *Log) write(b batch) ([]int64, error) {
	if len(b.records) == 0 {
		return nil, nil
	}
	if l.current().used+b.size() > l.o.SegmentBytes-recordOverhead && l.current().used > l.current().head {
		if err := l.cut(); err != nil {
			return nil, err
		}
	}
	s := l.current()
	at := make([]int64, len(b.records))
	buf := l.buf[:0]
	for i, p := range b.records {
		at[i] = s.used + int64(len(buf))
		buf = appendRecord(buf, s.seq, at[i], s.durable, p.kind, p.fixed, p.data)
	}
	if err := writeFull(l.disk, s.f, buf, s.used); err != nil {
		return nil, l.poison("writing to", s.path, err)
	}
	s.used += int64(len(buf))
	if cap(buf) <= writeBufferKeep {
		l.buf = buf
	}
	return at, nil
}

// syncCurrent makes everything written durable. Older segments are durable already (L6).
func (l *Log) syncCurrent() error {
	s := l.current()
	if s.durable == s.used {
		return nil
	}
	if err := l.disk.datasync(s.f); err != nil {
		return l.poison("syncing", s.path, err)
	}
	s.durable = s.used
	return nil
}

// cut starts a new segment: everything before it is durable, the new one gets its name, the old
// one its end (L6).
func (l *Log) cut() error {
	if err := l.syncCurrent(); err != nil {
		return err
	}
	old := l.current()
	h := head{
		seq: old.seq + 1, cluster: l.id.Cluster, member: l.id.Member,
		last: l.last, hs: l.hs, base: l.base, confs: l.confs,
	}
	next, err := writeSegment(l.disk, l.o.Dir, l.o.SegmentBytes, h)
	if err != nil {
		return l.poison("starting a segment after", old.path, err)
	}
	l.segs = append(l.segs, next)
	end := appendRecord(nil, old.seq, old.used, old.durable, recordEnd, nil, nil)
	if err := writeFull(l.disk, old.f, end, old.used); err != nil {
		return l.poison("ending", old.path, err)
	}
	old.used += int64(len(end))
	if err := old.f.Truncate(old.used); err != nil {
		return l.poison("ending", old.path, err)
	}
	if err := l.disk.sync(old.f); err != nil {
		return l.poison("ending", old.path, err)
	}
	old.durable = old.used
	return nil
}
