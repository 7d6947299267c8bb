package raftlog

import (
	"errors"
	"io"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// blockBytes is the unit of writes: a page, and what disks write at once. A file system may ask
	// for larger blocks, up to blockBytesMax.
	blockBytes    = 4096
	blockBytesMax = 64 << 10
	// aheadBytes is written at once, mostly zeros, when an append reaches preallocated space that was
	// never written to: the first write to each part of it makes the file system write its own
	// records too, which takes longer than the append.
	aheadBytes = 256 << 10
	// keepBytes bounds the buffer that is kept between writes.
	keepBytes = 4 << 20
)

// appender writes to the end of one segment, in whole blocks (L7). The last block, partly
// filled, stays in memory and is written again with the next append.
type appender struct {
	f       *os.File // the segment's own when not direct
	direct  bool     // past the page cache, and durable when a write returns
	block   int64
	at      int64  // offset of buf in the file, a multiple of block
	buf     []byte // what the file holds from at on, and what is to be written; lies on a block boundary
	written int64  // every block before this offset was written to
	limit   int64  // written never runs ahead beyond it
}

// newAppender goes on after content, which is all that counts of file, open at path. It writes
// content, but not the blocks that end before offset from. That write also shows whether the
// file system takes direct ones. The caller makes it durable.
func newAppender(d disk, file *os.File, path string, content []byte, from, limit int64) (*appender, error) {
	f, block, err := d.openDirect(path)
	if err == nil {
		a := &appender{f: f, direct: true, block: block, limit: limit}
		if err = a.start(d, content, from); err == nil {
			return a, nil
		}
		err = joinClose(err, f)
	}
	if !errors.Is(err, unix.EINVAL) {
		return nil, err
	}
	a := &appender{f: file, block: blockBytes, limit: limit}
	return a, a.start(d, content, from)
}

// start takes at least one block in, also when the last one is full, so that there is something
// to write.
func (a *appender) start(d disk, content []byte, from int64) error {
	a.at = max(0, from-1) / a.block * a.block
	rest := content[a.at:]
	a.reserve(int64(len(rest)))
	a.buf = append(a.buf, rest...)
	return a.flush(d)
}

// end is the offset behind everything added.
func (a *appender) end() int64 { return a.at + int64(len(a.buf)) }

// reserve makes room for n more bytes, so that adding and writing them moves nothing.
func (a *appender) reserve(n int64) {
	need := a.extent(a.end()+n) - a.at
	if int64(cap(a.buf)) < need {
		a.buf = append(alignedBytes(max(need, int64(2*cap(a.buf))), a.block), a.buf...)
	}
}

// extent says up to where the file is written when its content ends at end.
func (a *appender) extent(end int64) int64 {
	to := roundUp(end, a.block)
	if to <= a.written {
		return to
	}
	return max(to, min(roundUp(to, aheadBytes), a.limit/a.block*a.block))
}

// flush writes what was added since the last flush, and forgets whole blocks.
func (a *appender) flush(d disk) error {
	to := a.extent(a.end())
	b := a.buf[:to-a.at]
	clear(b[len(a.buf):])
	write := d.writeAt
	if a.direct {
		write = d.writeDirect
	}
	n, err := write(a.f, b, a.at)
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	if err != nil {
		return err
	}
	a.written = max(a.written, to)
	whole := int64(len(a.buf)) / a.block * a.block
	rest := a.buf[whole:]
	if cap(a.buf) > keepBytes {
		a.buf = alignedBytes(a.block+aheadBytes, a.block)
	}
	a.buf = append(a.buf[:0], rest...)
	a.at += whole
	return nil
}

// Close leaves the segment's own file open.
func (a *appender) Close() error {
	if a.direct {
		return a.f.Close()
	}
	return nil
}

func roundUp(n, unit int64) int64 { return (n + unit - 1) / unit * unit }

// alignedBytes returns an empty slice of capacity n that begins at a multiple of align in memory, as
// direct writes demand.
func alignedBytes(n, align int64) []byte {
	b := make([]byte, n+align)
	skip := -int64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) & (align - 1)
	return b[skip : skip : skip+n]
}
