package instance

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
)

func control(version, state uint32) []byte {
	b := make([]byte, 64)
	binary.NativeEndian.PutUint32(b[controlVersionOffset:], version)
	binary.NativeEndian.PutUint32(b[controlStateOffset:], state)
	return b
}

func TestParseControl(t *testing.T) {
	for _, c := range []struct {
		b    []byte
		want dbState
		ok   bool
	}{
		{control(1300, 1), dbShutdowned, true},
		{control(1800, 6), dbInProduction, true},
		{control(1300, 7), 0, false},
		{control(0x14050000, 1), 0, false}, // 1300 in the other byte order
		{control(1300, 1)[:19], 0, false},
		{nil, 0, false},
	} {
		s, err := parseControl(c.b)
		if s != c.want || (err == nil) != c.ok {
			t.Errorf("%v: %d, %v", c.b, s, err)
		}
	}
}

func FuzzParseControl(f *testing.F) {
	f.Add(control(1300, 1))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, err := parseControl(b); err == nil && s > dbInProduction {
			t.Fatalf("state %d", s)
		}
	})
}

// streamOf plays messages, given as CopyData bodies, then CopyDone.
func streamOf(bodies ...[]byte) *backupStream {
	n := 0
	return &backupStream{ctx: context.Background(), receive: func(context.Context) (pgproto3.BackendMessage, error) {
		n++
		if n > len(bodies) {
			return &pgproto3.CopyDone{}, nil
		}
		return &pgproto3.CopyData{Data: bodies[n-1]}, nil
	}}
}

func TestBackupStream(t *testing.T) {
	s := streamOf([]byte("nbase.tar\x00\x00"), []byte("dabc"), []byte("p12345678"), []byte("ddef"),
		[]byte("nnext.tar\x00\x00"), []byte("dx"))
	var seen int64
	s.progress = func(n int64) { seen = n }
	name, err := s.nextArchive()
	if name != "base.tar" || err != nil {
		t.Fatal(name, err)
	}
	if b, err := io.ReadAll(s); string(b) != "abcdef" || err != nil || seen != 6 {
		t.Fatalf("%q %v %d", b, err, seen)
	}
	if name, err := s.nextArchive(); name != "next.tar" || err != nil {
		t.Fatal(name, err)
	}
	if name, err := s.nextArchive(); name != "" || err != nil { // unread bytes are skipped
		t.Fatal(name, err)
	}
	if n, err := s.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Fatal(n, err)
	}
	for _, bad := range []string{"", "n", "nbase.tar\x00", "n\x00\x00", "nbase.tar\x00\x00x", "z"} {
		if _, err := streamOf([]byte(bad)).nextArchive(); !errors.Is(err, errCopyData) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if _, err := streamOf([]byte("n1.tar\x00/mnt/fast\x00")).nextArchive(); err == nil {
		t.Error("a tablespace is accepted")
	}
}

func FuzzBackupStream(f *testing.F) {
	f.Add([]byte("nbase.tar\x00\x00\ndabc\nmx\np1\nd"))
	f.Add([]byte("n\x00\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s := streamOf(bytes.Split(data, []byte("\n"))...)
		for {
			name, err := s.nextArchive()
			if err != nil || name == "" {
				return
			}
			if n, err := io.Copy(io.Discard, s); err == nil && n > int64(len(data)) {
				t.Fatalf("%d bytes out of %d", n, len(data))
			}
		}
	})
}
