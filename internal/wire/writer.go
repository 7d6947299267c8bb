package wire

import "io"

const (
	writerBytesFull   = 64 << 10  // Full from here on
	writerBytesRetain = 256 << 10 // a larger empty buffer is given back
)

// Writer gathers frames and writes them with one call. It is not safe for
// concurrent use. Append never writes and never fails; the caller bounds the
// buffer by flushing when Full. A failed write is final, except a timeout,
// after which Flush may be called again and goes on where it was.
type Writer struct {
	dst io.Writer
	buf []byte
	err error
}

// NewWriter returns a Writer to w.
func NewWriter(w io.Writer) *Writer { return &Writer{dst: w} }

// Append copies raw, one or more whole frames, to the end of the buffer. After
// a final error it drops them.
func (w *Writer) Append(raw []byte) {
	if w.err == nil {
		w.buf = append(w.buf, raw...)
	}
}

// AvailableBuffer returns an empty slice into the unused end of the buffer, so
// that w.Append(AppendX(w.AvailableBuffer(), …)) builds a frame in place. It
// is valid until the next call of a method of w.
func (w *Writer) AvailableBuffer() []byte { return w.buf[len(w.buf):] }

// Len returns the bytes not yet written.
func (w *Writer) Len() int { return len(w.buf) }

// Full reports that the buffer holds 64 KiB or more and should be flushed.
func (w *Writer) Full() bool { return len(w.buf) >= writerBytesFull }

// Err returns the final error, if there was one.
func (w *Writer) Err() error { return w.err }

// Flush writes all that was appended.
func (w *Writer) Flush() error {
	for w.err == nil && len(w.buf) > 0 {
		n, err := w.dst.Write(w.buf)
		if n < len(w.buf) && err == nil {
			err = io.ErrShortWrite
		}
		if err != nil && isTimeout(err) {
			w.buf = w.buf[:copy(w.buf, w.buf[n:])]
			return err
		}
		w.err = err
		w.buf = w.buf[:0]
	}
	if cap(w.buf) > writerBytesRetain && len(w.buf) == 0 {
		w.buf = nil
	}
	return w.err
}
