package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
)

const (
	readerBytesMin    = 16 << 10 // first size of a Reader's buffer
	readerBytesRetain = 64 << 10 // a larger empty buffer is given back
	emptyReadsMax     = 100
)

// Reader reads frames from a stream through its own growing buffer. It is not
// safe for concurrent use.
//
// A timeout of the underlying reader loses nothing: Next and NextHeader may be
// called again and go on where they were. Every other error is final, except
// in Stream and Skip where a timeout is final too.
type Reader struct {
	src     io.Reader
	limits  Limits
	buf     []byte
	rd, wr  int   // buf[rd:wr] is unread
	srcErr  error // came together with bytes, is due at the next read
	failure error // final
}

// NewReader returns a Reader of r. The buffer is allocated by the first read.
func NewReader(r io.Reader, limits Limits) *Reader {
	return &Reader{src: r, limits: limits}
}

// Reset forgets everything buffered and reads from r. Frames handed out
// before become invalid.
func (r *Reader) Reset(src io.Reader, limits Limits) {
	*r = Reader{src: src, limits: limits, buf: r.buf}
}

// SetLimits changes the limits for the frames not yet returned.
func (r *Reader) SetLimits(limits Limits) { r.limits = limits }

// Next blocks until a whole frame is in memory and returns it. The frame
// aliases the Reader's buffer and is valid until the next call of Next,
// NextHeader, Stream, Skip or Reset.
//
// The error is io.EOF at the end of the stream between two frames,
// io.ErrUnexpectedEOF inside a frame, a *ProtocolError (08P01) for a bad
// length or an unknown type, or the error of the underlying reader.
func (r *Reader) Next() (Frame, error) {
	for {
		h, need, err := r.peek()
		if err != nil {
			return Frame{}, err
		}
		if need == 0 {
			if r.wr-r.rd >= h.Len {
				end := r.rd + h.Len
				f := Frame{Type: h.Type, Raw: r.buf[r.rd:end:end]}
				r.rd = end
				return f, nil
			}
			need = h.Len
		}
		if err := r.fill(need); err != nil {
			return Frame{}, err
		}
	}
}

// NextHeader blocks until the header of the next frame has arrived and
// returns it without consuming anything. Next, Stream or Skip take the frame.
// The errors are those of Next.
func (r *Reader) NextHeader() (Header, error) {
	for {
		h, need, err := r.peek()
		if err != nil {
			return Header{}, err
		}
		if need == 0 {
			return h, nil
		}
		if err := r.fill(need); err != nil {
			return Header{}, err
		}
	}
}

// Buffered reports whether Next would answer without reading: a whole next
// frame, or what makes it a protocol error, is already in memory.
func (r *Reader) Buffered() bool {
	h, need, err := r.peek()
	return err != nil || need == 0 && r.wr-r.rd >= h.Len
}

// BufferedBytes returns how many bytes were read but not yet returned.
func (r *Reader) BufferedBytes() int { return r.wr - r.rd }

// Stream moves the frame that NextHeader has just announced to w without
// holding it whole, and flushes w whenever it is full. What w already held
// goes first; the end of the frame may remain in w. On an error the frame was
// cut in the middle: neither stream can be used further. w.Err tells which
// side failed.
func (r *Reader) Stream(w *Writer, h Header) error {
	return r.consume(h, func(part []byte) error {
		w.Append(part)
		if w.Full() {
			return w.Flush()
		}
		return w.Err()
	})
}

// Skip drops the frame that NextHeader has just announced without holding it
// whole. An error is final.
func (r *Reader) Skip(h Header) error {
	return r.consume(h, func([]byte) error { return nil })
}

func (r *Reader) consume(h Header, sink func([]byte) error) error {
	if got, need, err := r.peek(); err != nil || need != 0 || got != h {
		panic(fmt.Sprintf("wire: %+v is not the header NextHeader returned last", h))
	}
	for left := h.Len; ; {
		n := min(left, r.wr-r.rd)
		err := sink(r.buf[r.rd : r.rd+n])
		r.rd += n
		left -= n
		if left == 0 && err == nil {
			return nil
		}
		if err == nil {
			if err = r.fill(1); errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
		}
		if err != nil {
			r.failure = err
			return err
		}
	}
}

// peek looks at the next header. need is 0 when it is complete, else how many
// bytes must be buffered before peek can tell more.
func (r *Reader) peek() (h Header, need int, err error) {
	if r.failure != nil {
		return Header{}, 0, r.failure
	}
	have := r.buf[r.rd:r.wr]
	if len(have) == 0 {
		return Header{}, HeaderBytes, nil
	}
	max := r.limits.of(have[0])
	if max == 0 {
		r.failure = fatalProtocol(r.limits.unknown, have[0])
		return Header{}, 0, r.failure
	}
	if len(have) < HeaderBytes {
		return Header{}, HeaderBytes, nil
	}
	length := binary.BigEndian.Uint32(have[1:])
	if length < 4 || length > max {
		e := fatalProtocol("invalid message length")
		e.Detail = fmt.Sprintf("Message type %q has length %d; 4 to %d bytes are allowed.", have[0], length, max)
		r.failure = e
		return Header{}, 0, r.failure
	}
	return Header{Type: have[0], Len: int(length) + 1}, 0, nil
}

// fill reads once, into room for a frame of need bytes from rd on as far as
// the bytes that have arrived justify it.
func (r *Reader) fill(need int) error {
	if r.srcErr != nil {
		return r.fail(r.srcErr)
	}
	r.makeRoom(need)
	for range emptyReadsMax {
		n, err := r.src.Read(r.buf[r.wr:])
		r.wr += n
		if n > 0 {
			r.srcErr = err
			return nil
		}
		if err != nil {
			return r.fail(err)
		}
	}
	return r.fail(io.ErrNoProgress)
}

// fail makes err final unless it is a timeout.
func (r *Reader) fail(err error) error {
	r.srcErr = nil
	if isTimeout(err) {
		return err
	}
	if errors.Is(err, io.EOF) && r.wr > r.rd {
		err = io.ErrUnexpectedEOF
	}
	r.failure = err
	return err
}

// makeRoom leaves at least one free byte at the end of the buffer. The buffer
// grows only when it is full of unread bytes (W2).
func (r *Reader) makeRoom(need int) {
	if r.rd == r.wr {
		r.rd, r.wr = 0, 0
		if len(r.buf) > readerBytesRetain {
			r.buf = nil
		}
	}
	if r.buf == nil {
		r.buf = make([]byte, readerBytesMin)
	}
	if r.wr < len(r.buf) && r.rd+need <= len(r.buf) {
		return
	}
	if r.rd > 0 {
		r.wr = copy(r.buf, r.buf[r.rd:r.wr])
		r.rd = 0
	}
	if r.wr == len(r.buf) {
		grown := make([]byte, max(min(2*len(r.buf), need), len(r.buf)+readerBytesMin))
		copy(grown, r.buf[:r.wr])
		r.buf = grown
	}
}

func isTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}

// unread puts bytes that were read elsewhere into the empty buffer.
func (r *Reader) unread(b []byte) {
	if len(b) == 0 {
		return
	}
	r.buf = append(make([]byte, 0, max(len(b), readerBytesMin)), b...)
	r.wr = len(b)
	r.buf = r.buf[:cap(r.buf)]
}
