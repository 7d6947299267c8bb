package spill

import (
	"bytes"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// resident is how much of this process is in memory, in bytes.
func resident(t *testing.T) int {
	t.Helper()
	data, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(strings.Fields(string(data))[1])
	if err != nil {
		t.Fatal(err)
	}
	return n * os.Getpagesize()
}

// raced reports whether this is built with the race detector, which takes memory for all that is touched.
func raced() bool {
	info, _ := debug.ReadBuildInfo()
	return slices.ContainsFunc(info.Settings, func(s debug.BuildSetting) bool {
		return s.Key == "-race" && s.Value == "true"
	})
}

// TestRoomTakesNoMemory: what is in files and not in use takes no memory, and no more garbage gathers because of it
// (SP5).
func TestRoomTakesNoMemory(t *testing.T) {
	const size = 256 << 20
	f := files(t)
	debug.FreeOSMemory()
	before, percent := resident(t), f.percent
	b := f.Room(size)
	if f.Bytes() == 0 {
		t.Fatal("nothing is in files")
	}
	piece := bytes.Repeat([]byte("tutti"), 1<<18)
	most := 0
	for len(b)+len(piece) <= size {
		b = append(b, piece...)
		_ = append([]byte(nil), piece...) // garbage
		if len(b)%(16*len(piece)) == 0 {
			time.Sleep(2 * sweepEvery)
			most = max(most, resident(t)-before)
		}
	}
	if most > size/2 && !raced() {
		t.Errorf("%d bytes in a file take %d of memory", size, most)
	}
	if !bytes.Equal(b[len(b)-len(piece):], piece) || !bytes.Equal(b[:len(piece)], piece) {
		t.Error("what was written is not there")
	}
	b = nil
	collected(t, f)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.now != percent {
		t.Errorf("garbage may gather up to %d %%, want %d", f.now, percent)
	}
}
