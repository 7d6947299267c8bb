package raftlog

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Repair describes a torn tail that Open cut off: records of writes that a crash
// interrupted and that nobody had been told were durable.
type Repair struct {
	File   string
	Offset int64 // the file is valid up to here
	Bytes  int64 // non-zero bytes were found in this many bytes after Offset
	Reason string
}

// replayer reads the segments of a log that is opened.
type replayer struct{ log *Log }

// replay reads all segments into l.state, repairs the newest one's tail and leaves l.segs open
// and durable. On error the caller closes what is open.
func (l *Log) replay() (err error) {
	segs, err := listSegments(l.disk, l.o.Dir)
	if err != nil {
		return err
	}
	l.segs = segs
	p := replayer{l}
	var buf scratch
	defer func() { err = errors.Join(err, buf.free()) }()
	for i, s := range segs {
		if s.f, err = os.OpenFile(s.path, os.O_RDWR, 0); err != nil {
			return fmt.Errorf("raftlog: %w", err)
		}
		content, err := buf.readAll(s.f)
		if err != nil {
			return fmt.Errorf("raftlog: read %s: %w", s.path, err)
		}
		ended, err := p.segment(s, content, i == 0)
		if err != nil {
			return err
		}
		last := i == len(segs)-1
		switch {
		case !last && !ended && i == len(segs)-2:
			// A crash came between the successor's creation and this end record (L6). The
			// successor can only hold its head, which says nothing new.
			return p.dropUnstarted(s, segs[i+1], content)
		case !last && !ended:
			return corrupt(s.path, s.used, errors.New("the segment has a successor, but no end"))
		case last && ended:
			return corrupt(s.path, s.used, fmt.Errorf("the segment after this one, number %x, is missing", s.seq+1))
		case last:
			return p.repairTail(s, content)
		case i == len(segs)-2:
			if err := p.writeAgain(s, content); err != nil {
				return err
			}
		}
	}
	return nil
}

// scratch is memory for the content of one segment after another. It is not Go's: of that, what a start needs once
// would stay the process's for minutes.
type scratch []byte

// readAll returns what is in a file, until the next call.
func (b *scratch) readAll(f *os.File) ([]byte, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	size := int(st.Size())
	if len(*b) < size {
		if err := b.free(); err != nil {
			return nil, err
		}
		*b, err = unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
		if err != nil {
			return nil, err
		}
	}
	_, err = io.ReadFull(f, (*b)[:size])
	return (*b)[:size], err
}

func (b *scratch) free() error {
	if *b == nil {
		return nil
	}
	was := *b
	*b = nil
	return unix.Munmap(was)
}

// segment applies the valid records at the start of b, the content of s, sets s.used and
// reports whether they finish with an end record. The head must be valid.
func (p replayer) segment(s *segment, b []byte, first bool) (ended bool, err error) {
	for {
		r, err := decodeRecord(b[s.used:], s.seq, s.used)
		if err != nil {
			if s.used == 0 {
				return false, corrupt(s.path, 0, err)
			}
			return false, nil
		}
		if (s.used == 0) != (r.kind == recordHead) {
			return false, corrupt(s.path, s.used, fmt.Errorf("record type %d is not allowed here", r.kind))
		}
		if r.kind == recordHead {
			s.head = r.size
			err = p.head(s, r.payload, first)
		} else {
			err = p.record(s, r)
		}
		if err != nil {
			return false, corrupt(s.path, s.used, err)
		}
		s.used += r.size
		s.proven = max(s.proven, r.durable)
		if r.kind == recordEnd {
			if !allZero(b[s.used:]) {
				return false, corrupt(s.path, s.used, errors.New("there is data after the segment's end"))
			}
			return true, nil
		}
	}
}

// head takes the state from the oldest segment's head; a later head must agree
// with what was replayed.
func (p replayer) head(s *segment, payload []byte, first bool) error {
	h, err := decodeHead(payload)
	if err != nil {
		return err
	}
	if h.cluster != p.log.id.Cluster || h.member != p.log.id.Member {
		return fmt.Errorf("the file belongs to member %d of cluster %q, not to member %d of cluster %q",
			h.member, h.cluster, p.log.id.Member, p.log.id.Cluster)
	}
	if h.seq != s.seq || h.last+1 != s.first {
		return fmt.Errorf("the file was written as %s", segmentName(h.seq, h.last+1))
	}
	if first {
		p.log.state = state{hs: h.hs, base: h.base, confs: h.confs, last: h.last}
		return nil
	}
	if h.hs != p.log.hs || h.base.index != p.log.base.index || h.base.term != p.log.base.term || h.last != p.log.last ||
		len(h.confs) != len(p.log.confs) {
		return errors.New("the segment does not continue the one before it")
	}
	return nil
}

func (p replayer) record(s *segment, r record) error {
	switch r.kind {
	case recordEntry:
		e, err := decodeEntry(r.payload[:min(len(r.payload), entryFixedBytes)]) // without its data
		if err != nil {
			return err
		}
		return p.log.putEntry(e.GetIndex(), entryLoc(e, s.seq, s.used, r.size))
	case recordHardState:
		h, err := decodeHardState(r.payload)
		p.log.hs = h
		return err
	case recordBase:
		b, restart, err := decodeBase(r.payload)
		if err == nil && (b.index <= p.log.base.index || !restart && b.index > p.log.last) {
			err = fmt.Errorf("compaction to %d of a log from %d to %d", b.index, p.log.base.index+1, p.log.last)
		}
		if err == nil {
			p.log.putBase(b, restart)
		}
		return err
	case recordConf:
		c, err := decodeConfAt(r.payload)
		if err == nil {
			p.log.putConf(c)
		}
		return err
	case recordMark, recordEnd:
		return nil
	default:
		return fmt.Errorf("record type %d is not known to this program", r.kind)
	}
}

// dropUnstarted removes the newest segment, next, after checking that it was never
// written to; s becomes the newest one.
func (p replayer) dropUnstarted(s, next *segment, content []byte) error {
	b, err := os.ReadFile(next.path)
	if err != nil {
		return fmt.Errorf("raftlog: %w", err)
	}
	r, err := decodeRecord(b, next.seq, 0)
	if err != nil {
		return corrupt(next.path, 0, err)
	}
	if !allZero(b[r.size:]) {
		return corrupt(s.path, s.used, errors.New("the segment has no end, but its successor has entries"))
	}
	if err := p.head(next, r.payload, false); err != nil {
		return corrupt(next.path, 0, err)
	}
	p.log.segs = p.log.segs[:len(p.log.segs)-1]
	// s first: its tail may turn out to be damaged, and then nothing is changed.
	if err := p.repairTail(s, content); err != nil {
		return err
	}
	if err := p.log.disk.remove(next.path); err != nil {
		return fmt.Errorf("raftlog: %w", err)
	}
	return p.log.disk.syncDir(p.log.o.Dir)
}

// repairTail handles what follows the last valid record of the newest segment: zeros are
// fine, a torn write is cut off, anything else is damage (L3). Afterwards the segment takes
// appends, and everything that was replayed is on disk: it may have come from the page cache of
// a process that died, where it is clean and never written any more if an fsync has failed. So
// what no record proves durable is written again (L4).
func (p replayer) repairTail(s *segment, content []byte) error {
	rest := content[s.used:]
	if !allZero(rest) {
		_, why := decodeRecord(rest, s.seq, s.used)
		if provenDurable(rest, s.seq, s.used, s.used) {
			return corrupt(s.path, s.used, errors.New("a later record says that this one was durable"))
		}
		if errors.Is(why, errDamaged) {
			return corrupt(s.path, s.used, why)
		}
		if err := s.f.Truncate(s.used); err != nil {
			return fmt.Errorf("raftlog: cut the torn tail off %s: %w", s.path, err)
		}
		p.log.repairs = append(p.log.repairs, Repair{File: s.path, Offset: s.used, Bytes: int64(len(rest)),
			Reason: why.Error()})
	}
	// What is allocated stays so, however much that is.
	st, err := s.f.Stat()
	if err == nil {
		most := p.log.o.SegmentBytes
		s.room = max(roomFor(s.used, most), min(st.Size(), most))
		err = p.log.disk.allocate(s.f, max(s.room, s.used))
	}
	if err == nil {
		s.tail, err = newAppender(p.log.disk, s.f, s.path, content[:s.used], s.proven, s.room)
	}
	if err == nil {
		err = p.log.disk.sync(s.f)
	}
	if err == nil {
		err = p.log.disk.syncDir(p.log.o.Dir)
	}
	if err != nil {
		return p.log.poison("preparing", s.path, err)
	}
	s.durable = s.used
	return nil
}

// writeAgain does the same for the segment before the newest one, whose end record may be in
// the page cache only.
func (p replayer) writeAgain(s *segment, content []byte) error {
	a, err := newAppender(p.log.disk, s.f, s.path, content[:s.used], s.proven, 0)
	if err == nil {
		err = s.f.Truncate(s.used) // whole blocks were written
	}
	if err == nil {
		err = p.log.disk.sync(s.f)
	}
	if err != nil {
		return p.log.poison("preparing", s.path, err)
	}
	s.durable = s.used
	return a.Close()
}
