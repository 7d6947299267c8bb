package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"testing"
	"testing/iotest"
	"time"
)

func header(typ byte, length uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte{typ}, length)
}

// Any cut of the stream gives the same frames (W1).
func TestReaderFramesAtAnyCut(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var stream []byte
	var want [][]byte
	for range 300 {
		size := rnd.IntN(300)
		if rnd.IntN(30) == 0 {
			size = rnd.IntN(200_000)
		}
		f := AppendFrame(nil, "QPd"[rnd.IntN(3)], bytes.Repeat([]byte{byte(size)}, size))
		want = append(want, f)
		stream = append(stream, f...)
	}
	for name, src := range map[string]io.Reader{
		"whole":        bytes.NewReader(stream),
		"bytes":        iotest.OneByteReader(bytes.NewReader(stream)),
		"halves":       iotest.HalfReader(bytes.NewReader(stream)),
		"data and EOF": iotest.DataErrReader(bytes.NewReader(stream)),
	} {
		r := NewReader(src, FrontendLimits())
		for i, w := range want {
			f, err := r.Next()
			if err != nil || !bytes.Equal(f.Raw, w) || f.Type != w[0] || !bytes.Equal(f.Body(), w[5:]) {
				t.Fatalf("%s: frame %d: %v", name, i, err)
			}
		}
		for range 2 {
			if _, err := r.Next(); err != io.EOF {
				t.Fatalf("%s: got %v, want io.EOF", name, err)
			}
		}
	}
}

func TestReaderLimits(t *testing.T) {
	const large = 1<<30 - 2
	for _, c := range []struct {
		limits Limits
		typ    byte
		max    uint32
	}{
		{FrontendLimits(), 'C', 10_000}, {FrontendLimits(), 'D', 10_000}, {FrontendLimits(), 'E', 10_000},
		{FrontendLimits(), 'H', 10_000}, {FrontendLimits(), 'S', 10_000}, {FrontendLimits(), 'X', 10_000},
		{FrontendLimits(), 'c', 10_000}, {FrontendLimits(), 'f', 10_000},
		{FrontendLimits(), 'Q', large}, {FrontendLimits(), 'P', large}, {FrontendLimits(), 'B', large},
		{FrontendLimits(), 'F', large}, {FrontendLimits(), 'd', large},
		{passwordLimits, 'p', 65_535}, {saslLimits, 'p', 1_024},
		{BackendLimits(), 'D', 1<<30 + 3}, {FrontendLimits().Capped(500), 'Q', 500},
	} {
		for length, good := range map[uint32]bool{0: false, 3: false, 4: true, c.max: true, c.max + 1: false,
			1<<32 - 1: false} {
			r := NewReader(bytes.NewReader(header(c.typ, length)), c.limits)
			h, err := r.NextHeader()
			if good {
				equal(t, "header", h, Header{c.typ, int(length) + 1})
			} else {
				wantProtocolError(t, string(c.typ), err, SeverityFatal)
				if _, again := r.Next(); again != err {
					t.Errorf("the error did not stick: %v", again)
				}
			}
		}
	}
}

// One bad type byte is enough; the reader does not wait for a length.
func TestReaderUnknownType(t *testing.T) {
	for limits, types := range map[*Limits]string{
		{frontendLimits.max, frontendLimits.unknown}: "pRZK\x00\x16\xff",
		{backendLimits.max, backendLimits.unknown}:   "QPBpX\x00",
		{}: "Q",
	} {
		for i := range len(types) {
			a, b := net.Pipe()
			go b.Write([]byte{types[i]})
			r := NewReader(a, *limits)
			_, err := r.Next()
			wantProtocolError(t, types[i:i+1], err, SeverityFatal)
			if !r.Buffered() {
				t.Error("Next would not block, Buffered says it would")
			}
			a.Close()
			b.Close()
		}
	}
}

func TestReaderEndInsideFrame(t *testing.T) {
	whole := AppendQuery(nil, "select 1")
	for n := 1; n < len(whole); n++ {
		r := NewReader(bytes.NewReader(whole[:n]), FrontendLimits())
		if _, err := r.Next(); err != io.ErrUnexpectedEOF {
			t.Fatalf("after %d bytes: %v", n, err)
		}
	}
}

// A huge length word alone allocates nothing near it (W2).
func TestReaderDoesNotTrustLength(t *testing.T) {
	r := NewReader(io.MultiReader(bytes.NewReader(header('Q', 1<<30-2)), bytes.NewReader(make([]byte, 100_000))),
		FrontendLimits())
	if _, err := r.Next(); err != io.ErrUnexpectedEOF {
		t.Fatal(err)
	}
	if len(r.buf) > 4*100_000 {
		t.Fatalf("buffer of %d bytes for 100,005 received", len(r.buf))
	}
}

// A large frame does not leave a large buffer behind.
func TestReaderGivesLargeBufferBack(t *testing.T) {
	stream := append(AppendCopyData(nil, make([]byte, 3<<20)), AppendSync(nil)...)
	r := NewReader(bytes.NewReader(stream), FrontendLimits())
	for _, typ := range []byte{'d', 'S'} {
		if f, err := r.Next(); err != nil || f.Type != typ {
			t.Fatal(f.Type, err)
		}
	}
	if _, err := r.Next(); err != io.EOF || len(r.buf) > readerBytesRetain {
		t.Fatal(err, len(r.buf))
	}
}

func TestReaderBuffered(t *testing.T) {
	two := AppendQuery(AppendSync(nil), "select 1")
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	r := NewReader(a, FrontendLimits())
	if r.Buffered() {
		t.Fatal("nothing was read")
	}
	go func() { b.Write(two[:len(two)-1]); b.Write(two[len(two)-1:]) }()
	if _, err := r.Next(); err != nil {
		t.Fatal(err)
	}
	if r.Buffered() || r.BufferedBytes() != len(two)-6 {
		t.Fatal("half a frame is buffered", r.BufferedBytes())
	}
	if _, err := r.NextHeader(); err != nil || r.Buffered() {
		t.Fatal(err)
	}
	a.SetReadDeadline(time.Now().Add(time.Minute))
	if f, err := r.Next(); err != nil || f.Type != 'Q' {
		t.Fatal(err)
	}
}

// A timeout in the middle of a frame loses nothing.
func TestReaderGoesOnAfterTimeout(t *testing.T) {
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	q := AppendQuery(nil, "select 1")
	go b.Write(q[:7])
	r := NewReader(a, FrontendLimits())
	if _, err := r.NextHeader(); err != nil {
		t.Fatal(err)
	}
	a.SetReadDeadline(time.Now())
	if _, err := r.Next(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	a.SetReadDeadline(time.Time{})
	go b.Write(q[7:])
	if f, err := r.Next(); err != nil || !bytes.Equal(f.Raw, q) {
		t.Fatal(err)
	}
}

func TestReaderNoProgress(t *testing.T) {
	r := NewReader(readFunc(func([]byte) (int, error) { return 0, nil }), FrontendLimits())
	if _, err := r.Next(); err != io.ErrNoProgress {
		t.Fatal(err)
	}
}

type readFunc func([]byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

// Stream relays bytes unchanged, between whole frames, in bounded memory.
func TestStream(t *testing.T) {
	big := AppendCopyData(nil, bytes.Repeat([]byte("0123456789"), 500_000))
	stream := append(append(AppendSync(nil), big...), AppendTerminate(nil)...)
	for name, src := range map[string]io.Reader{
		"whole": bytes.NewReader(stream), "halves": iotest.HalfReader(bytes.NewReader(stream)),
	} {
		var out bytes.Buffer
		r, w := NewReader(src, FrontendLimits()), NewWriter(&out)
		for range 3 {
			h, err := r.NextHeader()
			if err != nil {
				t.Fatal(err)
			}
			if err := r.Stream(w, h); err != nil {
				t.Fatal(err)
			}
		}
		if len(r.buf) > readerBytesRetain || cap(w.buf) > writerBytesRetain {
			t.Errorf("%s: buffers of %d and %d bytes", name, len(r.buf), cap(w.buf))
		}
		if err := w.Flush(); err != nil || !bytes.Equal(out.Bytes(), stream) {
			t.Errorf("%s: the stream was changed: %v", name, err)
		}
	}
}

func TestStreamErrors(t *testing.T) {
	big := AppendCopyData(nil, make([]byte, 1<<20))
	boom := errors.New("boom")

	r, w := NewReader(bytes.NewReader(big[:len(big)-1]), FrontendLimits()), NewWriter(io.Discard)
	h := must[Header](t)(r.NextHeader())
	if err := r.Stream(w, h); err != io.ErrUnexpectedEOF || w.Err() != nil {
		t.Error("source ended:", err, w.Err())
	}
	r, w = NewReader(bytes.NewReader(big), FrontendLimits()),
		NewWriter(writeFunc(func([]byte) (int, error) { return 0, boom }))
	h = must[Header](t)(r.NextHeader())
	if err := r.Stream(w, h); err != boom || w.Err() != boom {
		t.Error("destination broke:", err, w.Err())
	}
	if _, err := r.Next(); err != boom {
		t.Error("the reader went on inside a frame:", err)
	}
	defer func() {
		if recover() == nil {
			t.Error("Stream took a header that was not announced")
		}
	}()
	NewReader(bytes.NewReader(big), FrontendLimits()).Stream(w, Header{'d', 9})
}

func TestSkip(t *testing.T) {
	r := NewReader(bytes.NewReader(AppendSync(AppendCopyData(nil, make([]byte, 1<<20)))), FrontendLimits())
	if err := r.Skip(must[Header](t)(r.NextHeader())); err != nil {
		t.Fatal(err)
	}
	if f, err := r.Next(); err != nil || f.Type != 'S' {
		t.Fatal(err)
	}
}

func TestReset(t *testing.T) {
	r := NewReader(bytes.NewReader([]byte("?")), FrontendLimits())
	_, err := r.Next()
	wantProtocolError(t, "?", err, SeverityFatal)
	r.Reset(bytes.NewReader(AppendReadyForQuery(nil, 'I')), BackendLimits())
	if f, err := r.Next(); err != nil || f.Type != 'Z' {
		t.Fatal(err)
	}
}

type writeFunc func([]byte) (int, error)

func (f writeFunc) Write(p []byte) (int, error) { return f(p) }

func TestWriter(t *testing.T) {
	var out bytes.Buffer
	calls := 0
	w := NewWriter(writeFunc(func(p []byte) (int, error) { calls++; return out.Write(p) }))
	w.Append(AppendSync(w.AvailableBuffer()))
	w.Append(AppendQuery(w.AvailableBuffer(), "select 1"))
	want := AppendQuery(AppendSync(nil), "select 1")
	if w.Len() != len(want) || calls != 0 {
		t.Fatal("Append wrote", w.Len(), calls)
	}
	if err := w.Flush(); err != nil || calls != 1 || w.Len() != 0 || !bytes.Equal(out.Bytes(), want) {
		t.Fatal(err, calls, w.Len())
	}
	if err := w.Flush(); err != nil || calls != 1 {
		t.Fatal("an empty flush wrote")
	}
	w.Append(make([]byte, writerBytesFull-1))
	if w.Full() {
		t.Error("full too early")
	}
	w.Append(make([]byte, writerBytesRetain))
	if !w.Full() || w.Flush() != nil || cap(w.buf) != 0 {
		t.Error("large buffer kept")
	}
}

// A timeout keeps what was not written; another error is final.
func TestWriterErrors(t *testing.T) {
	var out bytes.Buffer
	answers := []error{os.ErrDeadlineExceeded, nil, io.ErrClosedPipe}
	w := NewWriter(writeFunc(func(p []byte) (int, error) {
		err := answers[0]
		answers = answers[1:]
		if err != nil {
			p = p[:3]
		}
		out.Write(p)
		return len(p), err
	}))
	w.Append([]byte("abcdef"))
	if err := w.Flush(); err != os.ErrDeadlineExceeded || w.Len() != 3 || w.Err() != nil {
		t.Fatal(err, w.Len())
	}
	if err := w.Flush(); err != nil || out.String() != "abcdef" {
		t.Fatal(err, out.String())
	}
	w.Append([]byte("abcdef"))
	for range 2 {
		if err := w.Flush(); err != io.ErrClosedPipe || w.Err() != err || w.Len() != 0 {
			t.Fatal(err)
		}
		w.Append([]byte("dropped"))
	}
	short := NewWriter(writeFunc(func(p []byte) (int, error) { return 1, nil }))
	short.Append([]byte("ab"))
	if err := short.Flush(); err != io.ErrShortWrite {
		t.Fatal(err)
	}
}

type loopReader struct {
	data []byte
	off  int
}

func (l *loopReader) Read(p []byte) (int, error) {
	n := copy(p, l.data[l.off:])
	l.off = (l.off + n) % len(l.data)
	return n, nil
}

func dataRow100() []byte { return AppendTextRow(nil, string(make([]byte, 89))) }

// The hot path allocates nothing per frame.
func TestRelayAllocatesNothing(t *testing.T) {
	relay := relayer()
	relay(10_000)
	if n := testing.AllocsPerRun(5, func() { relay(1_000) }); n != 0 {
		t.Fatalf("%v allocations for 1,000 frames", n)
	}
}

func relayer() func(frames int) {
	r := NewReader(&loopReader{data: bytes.Repeat(dataRow100(), 1000)}, BackendLimits())
	w := NewWriter(io.Discard)
	return func(frames int) {
		for range frames {
			f, err := r.Next()
			if err != nil {
				panic(err)
			}
			w.Append(f.Raw)
			if w.Full() || !r.Buffered() {
				if err := w.Flush(); err != nil {
					panic(err)
				}
			}
		}
	}
}

func BenchmarkRelayDataRow100(b *testing.B) {
	relay := relayer()
	b.SetBytes(int64(len(dataRow100())))
	b.ReportAllocs()
	relay(1000)
	for b.Loop() {
		relay(1)
	}
}
