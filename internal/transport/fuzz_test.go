package transport

import (
	"bytes"
	"testing"
)

func FuzzReadFrame(f *testing.F) {
	f.Add([]byte{})
	f.Add(appendFrameHeader(nil, nil))
	f.Add(wire("payload"))
	f.Add(append(wire("one"), wire("two")...))
	f.Add([]byte{0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bytes.NewReader(b)
		for {
			frame, err := readFrame(r, 1000)
			if err != nil {
				return
			}
			if len(frame) > 1000 {
				t.Fatalf("%d bytes", len(frame))
			}
			end := len(b) - r.Len()
			if again := wire(string(frame)); !bytes.Equal(again, b[end-len(again):end]) {
				t.Fatalf("read %x, which is written as %x", b, again)
			}
		}
	})
}

func FuzzReadHello(f *testing.F) {
	good := hello{from: 1, to: 2, cluster: "c1"}.append(nil)
	f.Add(good)
	f.Add(good[:len(good)-3])
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Add(append([]byte(magic), 9, 9, 0, 0))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bytes.NewReader(b)
		h, raw, err := readHello(r)
		if read := len(b) - r.Len(); read > preauthBytesMax {
			t.Fatalf("%d bytes were read before authentication", read)
		}
		if err == nil && (!bytes.Equal(h.append(nil), raw) || !bytes.HasPrefix(b, raw)) {
			t.Fatalf("%+v from %x", h, b)
		}
	})
}

func FuzzReadVerdict(f *testing.F) {
	var b bytes.Buffer
	for _, r := range []refusal{accepted, refusedVersion, refusedSecret, 99} {
		b.Reset()
		if err := writeVerdict(&b, r, make([]byte, nonceBytes)); err != nil {
			f.Fatal(err)
		}
		f.Add(bytes.Clone(b.Bytes()))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		body, err := readVerdict(bytes.NewReader(b), nonceBytes)
		if err == nil && len(body) != nonceBytes {
			t.Fatalf("%d bytes", len(body))
		}
		if err != nil && err.Error() == "" {
			t.Fatal("an error without text")
		}
	})
}
