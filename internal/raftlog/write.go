package raftlog

func (l *Log) current() *segment { return l.segs[len(l.segs)-1] }

// begin returns the segment for records of together bytes: a new one when the current one would
// outgrow its size.
func (l *Log) begin(bytes int64) (*segment, error) {
	if l.current().used+bytes > l.o.SegmentBytes-recordOverhead && l.current().used > l.current().head {
		if err := l.cut(); err != nil {
			return nil, err
		}
	}
	s := l.current()
	if need := s.tail.end() + bytes; need > s.room && s.room < l.o.SegmentBytes {
		if err := l.aside(func() error { return s.grow(l.disk, need, l.o.SegmentBytes) }); err != nil {
			return nil, l.poison("growing", s.path, err)
		}
	}
	s.tail.reserve(bytes)
	return s, nil
}

// write writes what was added to s. It is durable only if appends are direct.
func (l *Log) write(s *segment) error {
	if err := l.aside(func() error { return s.tail.flush(l.disk) }); err != nil {
		return l.poison("writing to", s.path, err)
	}
	s.used = s.tail.end()
	if s.tail.direct {
		s.durable = s.used
	}
	return nil
}

// aside waits for the disk while readers go on; no other writer does (Log.turn).
func (l *Log) aside(f func() error) error {
	l.mu.Unlock()
	defer l.mu.Lock()
	return f()
}

// writeOne writes a single record.
func (l *Log) writeOne(kind recordType, payload []byte) error {
	s, err := l.begin(recordBytes(len(payload)))
	if err != nil {
		return err
	}
	s.add(kind, payload, nil)
	return l.write(s)
}

// syncCurrent makes everything written durable. Older segments are durable already (L6).
func (l *Log) syncCurrent() error {
	s := l.current()
	if s.durable == s.used {
		return nil
	}
	if err := l.aside(func() error { return l.disk.datasync(s.f) }); err != nil {
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
	next, err := writeSegment(l.disk, l.o.Dir, roomFor(l.bytes(), l.o.SegmentBytes), h)
	if err != nil {
		return l.poison("starting a segment after", old.path, err)
	}
	l.segs = append(l.segs, next)
	if err := l.finish(old); err != nil {
		return l.poison("ending", old.path, err)
	}
	return nil
}

// finish ends s, which has a successor, durably.
func (l *Log) finish(s *segment) error {
	s.tail.reserve(recordOverhead)
	s.add(recordEnd, nil, nil)
	err := s.tail.flush(l.disk)
	if err == nil {
		s.used = s.tail.end()
		err = s.f.Truncate(s.used)
	}
	if err == nil {
		err = l.disk.sync(s.f)
	}
	if err == nil {
		s.durable = s.used
		err = s.tail.Close()
		s.tail = nil
	}
	return err
}
