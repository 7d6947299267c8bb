package raftlog

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestReadersDoNotWaitForTheDisk: raft asks for terms and entries while the next ones are being
// written; what it sees is the state before that write.
func TestReadersDoNotWaitForTheDisk(t *testing.T) {
	onBothPaths(t, func(t *testing.T, d disk) {
		begun, release := make(chan struct{}), make(chan struct{})
		slow := false
		wait := func() {
			if slow {
				slow = false
				close(begun)
				<-release
			}
		}
		write, sync := d.writeDirect, d.datasync
		d.writeDirect = func(f *os.File, b []byte, off int64) (int, error) {
			wait()
			return write(f, b, off)
		}
		d.datasync = func(f *os.File) error { wait(); return sync(f) }
		l := mustNew(t, Options{Dir: filepath.Join(t.TempDir(), "log")}, d)
		must(t, l.Append(hard(1, 7, 0), entries(1, 3, 1), true))
		slow = true
		done := make(chan error, 1)
		go func() { done <- l.Append(nil, entries(4, 5, 1), true) }()
		<-begun
		read := make(chan uint64, 1)
		go func() {
			term, err := l.Term(3)
			must(t, err)
			got, err := l.Entries(1, 4, 1<<20)
			must(t, err)
			read <- term + uint64(len(got))
		}()
		select {
		case n := <-read:
			if n != 1+3 {
				t.Errorf("term and number of entries add up to %d, want 4", n)
			}
		case <-time.After(time.Minute):
			t.Error("a reader waits for the disk")
		}
		close(release)
		must(t, <-done)
		if last, err := l.LastIndex(); err != nil || last != 5 {
			t.Errorf("last index %d, %v", last, err)
		}
		must(t, l.Close())
	})
}
