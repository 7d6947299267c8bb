package raftlog

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	segmentSuffix = ".seg"
	tempSuffix    = ".tmp"
)

// segment is one open file of the log.
type segment struct {
	seq     uint64
	first   uint64 // index the log would have appended next when the segment began
	path    string
	f       *os.File
	tail    *appender // of the segment that is written to, else nil
	room    int64     // bytes that are allocated, of the segment that is written to
	head    int64     // bytes of the first record
	used    int64     // bytes written, all valid records
	durable int64     // bytes known to be on disk, at most used
	proven  int64     // of them, what the records themselves say; set by replay
}

// add adds a record to what is written next. Its room is reserved.
func (s *segment) add(kind recordType, fixed, data []byte) {
	s.tail.buf = appendRecord(s.tail.buf, s.seq, s.tail.end(), s.durable, kind, fixed, data)
}

// Close releases the files.
func (s *segment) Close() error {
	var errs []error
	if s.tail != nil {
		errs = append(errs, s.tail.Close())
	}
	if s.f != nil {
		errs = append(errs, s.f.Close())
	}
	return errors.Join(errs...)
}

func segmentName(seq, first uint64) string {
	return fmt.Sprintf("%016x-%016x%s", seq, first, segmentSuffix)
}

// parseSegmentName is the inverse of segmentName; ok is false for every other name.
func parseSegmentName(name string) (seq, first uint64, ok bool) {
	if _, err := fmt.Sscanf(name, "%16x-%16x", &seq, &first); err != nil {
		return 0, 0, false
	}
	return seq, first, segmentName(seq, first) == name
}

// A new log's segment has a part of its final size at first, one of roomParts.
const roomParts = 64

// roomFor is how much is allocated of a segment for need bytes: a part of its final size, most, or twice that, and so
// on.
func roomFor(need, most int64) int64 {
	room := max(most/roomParts, blockBytes)
	for room < need && room < most {
		room *= 2
	}
	return min(room, most)
}

// grow allocates more of a segment that is written to, so that it has room for need bytes. The new size is durable
// before anything is written behind the old one.
func (s *segment) grow(d disk, need, most int64) error {
	room := max(s.room, roomFor(need, most))
	err := d.allocate(s.f, room)
	if err == nil {
		err = d.sync(s.f)
	}
	s.room, s.tail.limit = room, room
	return err
}

// writeSegment makes a segment durable under its name, with its head as the only record, and room for so many bytes.
func writeSegment(d disk, dir string, room int64, h head) (*segment, error) {
	s := &segment{seq: h.seq, first: h.last + 1, path: filepath.Join(dir, segmentName(h.seq, h.last+1))}
	temp := s.path + tempSuffix
	var err error
	if s.f, err = os.OpenFile(temp, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600); err != nil {
		return nil, err
	}
	b := appendRecord(nil, s.seq, 0, 0, recordHead, appendHead(nil, h), nil)
	s.room = room
	err = d.allocate(s.f, max(room, int64(len(b))))
	if err == nil {
		s.tail, err = newAppender(d, s.f, temp, b, 0, room)
	}
	if err == nil {
		err = d.sync(s.f)
	}
	if err == nil {
		err = os.Rename(temp, s.path)
	}
	if err == nil {
		err = d.syncDir(dir)
	}
	if err != nil {
		return nil, joinClose(err, s)
	}
	s.head, s.used, s.durable = int64(len(b)), int64(len(b)), int64(len(b))
	return s, nil
}

// isTemporary recognises files that are renamed when they are complete: segments, and what replaceFile writes, under
// renameio's names: a dot, the file's own and a random number.
func isTemporary(name string) bool {
	return strings.HasSuffix(name, tempSuffix) ||
		slices.ContainsFunc([]string{identityFile, incarnationFile, notesFile}, func(file string) bool {
			return strings.HasPrefix(name, "."+file)
		})
}

func joinClose(err error, c io.Closer) error {
	if cerr := c.Close(); cerr != nil {
		return fmt.Errorf("%w (and closing the file: %w)", err, cerr)
	}
	return err
}

// listSegments returns the segments of dir in order of their sequence numbers, not yet opened,
// and removes files that a crash left unfinished. A number that is missing is an error.
func listSegments(d disk, dir string) ([]*segment, error) {
	names, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var segs []*segment
	for _, e := range names {
		if isTemporary(e.Name()) {
			if err := d.remove(filepath.Join(dir, e.Name())); err != nil {
				return nil, err
			}
			continue
		}
		if seq, first, ok := parseSegmentName(e.Name()); ok {
			segs = append(segs, &segment{seq: seq, first: first, path: filepath.Join(dir, e.Name())})
		}
	}
	slices.SortFunc(segs, func(a, b *segment) int { return int(int64(a.seq - b.seq)) })
	if len(segs) == 0 {
		return nil, corrupt(dir, 0, errors.New("there is no segment"))
	}
	for i := 1; i < len(segs); i++ {
		if segs[i].seq != segs[i-1].seq+1 {
			return nil, corrupt(dir, 0, fmt.Errorf("segment %x is missing between %s and %s",
				segs[i-1].seq+1, filepath.Base(segs[i-1].path), filepath.Base(segs[i].path)))
		}
	}
	return segs, nil
}
