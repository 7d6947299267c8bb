package spill

import (
	"bytes"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"
)

func files(t *testing.T) *Files {
	t.Helper()
	return New(t.TempDir(), slog.New(slog.DiscardHandler))
}

// collected waits until nothing is in files.
func collected(t *testing.T, f *Files) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); f.Bytes() > 0; time.Sleep(time.Millisecond) {
		if runtime.GC(); time.Now().After(end) {
			t.Fatalf("%d bytes to which nothing points are still in files", f.Bytes())
		}
	}
}

// TestRoomIsMemory: many goroutines write to room, keep pieces of it and drop it; what they have kept stays what it
// was, and what the runtime hands out anew is zero (SP1, SP2).
func TestRoomIsMemory(t *testing.T) {
	f := files(t)
	var all sync.WaitGroup
	for seed := range uint64(4) {
		all.Go(func() {
			r := rand.New(rand.NewPCG(seed, 1))
			kept := map[byte][]byte{}
			for i := range 30 {
				n, v := Least+r.IntN(3*Least), byte(i+1)
				b := f.Room(n)
				if len(b) != 0 || cap(b) < n {
					t.Errorf("room for %d bytes is %d of %d", n, len(b), cap(b))
				}
				b = append(b, bytes.Repeat([]byte{v}, n)...)
				at := r.IntN(n - 1000)
				kept[v] = b[at : at+1000]
				if i%3 == 0 && bytes.Count(b[:n], []byte{v}) != n {
					t.Errorf("what was written to room is not there")
				}
				plain := make([]byte, n)
				if bytes.Count(plain, []byte{0}) != n {
					t.Errorf("new memory is not zero")
				}
				for v, piece := range kept { // order-free: each for itself
					if bytes.Count(piece, []byte{v}) != len(piece) {
						t.Errorf("what was written to room is not there any more")
					}
					if r.IntN(4) == 0 {
						delete(kept, v)
					}
				}
				if i%8 == 0 {
					runtime.GC()
				}
			}
		})
	}
	all.Wait()
	collected(t, f)
}

// TestFilesHaveNoNames: nothing of a process that ends is left, not even if it was ended in the middle (SP3).
func TestFilesHaveNoNames(t *testing.T) {
	dir := t.TempDir()
	left := filepath.Join(dir, prefix+"1")
	if err := os.WriteFile(left, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := New(dir, slog.New(slog.DiscardHandler))
	b := f.Room(4 * Least)
	names, err := os.ReadDir(dir)
	if err != nil || len(names) > 0 {
		t.Errorf("there are %v, %v; want nothing", names, err)
	}
	runtime.KeepAlive(b)
}

// TestNoFiles: where no file can be made, room is memory (SP4).
func TestNoFiles(t *testing.T) {
	f := New(filepath.Join(t.TempDir(), "missing"), slog.New(slog.DiscardHandler))
	b := append(f.Room(2*Least), 1, 2, 3)
	if !bytes.Equal(b, []byte{1, 2, 3}) || f.Bytes() != 0 {
		t.Errorf("room without a file is %v, with %d bytes in files", b, f.Bytes())
	}
	var none *Files
	if b := none.Room(2 * Least); cap(b) < 2*Least {
		t.Errorf("room has %d bytes", cap(b))
	}
}
