package raftlog

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"
)

// BenchmarkAppendSync is one durable entry at a time: the floor of a commit's latency. p50-µs is the
// median, cpu-µs/op the time of this process in user and kernel mode.
func BenchmarkAppendSync(b *testing.B) { benchmarkAppend(b, true) }

// BenchmarkAppend is the same without writing: what the code itself costs.
func BenchmarkAppend(b *testing.B) { benchmarkAppend(b, false) }

func benchmarkAppend(b *testing.B, write bool) {
	for _, size := range []int{300, 20 << 10} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			d := realDisk()
			l := mustNew(b, Options{Dir: filepath.Join(b.TempDir(), "log")}, d)
			if !write {
				l.disk.setWrite(func(_ *os.File, p []byte, _ int64) (int, error) { return len(p), nil })
			}
			data := bytes.Repeat([]byte("x"), size)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			i := uint64(1)
			var took []float64
			before := cpuMicros(b)
			for b.Loop() {
				began := time.Now()
				e := &pb.Entry{Index: new(i), Term: new(uint64(1)), Data: data}
				if err := l.Append(nil, []*pb.Entry{e}, write); err != nil {
					b.Fatal(err)
				}
				i++
				took = append(took, float64(time.Since(began).Nanoseconds())/1e3)
			}
			b.ReportMetric((cpuMicros(b)-before)/float64(b.N), "cpu-µs/op")
			slices.Sort(took)
			b.ReportMetric(took[len(took)/2], "p50-µs")
			must(b, l.release())
		})
	}
}

func cpuMicros(b *testing.B) float64 {
	var u syscall.Rusage
	must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e3
}
