package raftlog

import (
	"path/filepath"
	"strings"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"
)

// BenchmarkAppendSync is one fsynced entry of 1 KB at a time: the floor of a commit's latency.
func BenchmarkAppendSync(b *testing.B) { benchmarkAppend(b, true) }

// BenchmarkAppend is the same without fsync: what the code itself costs.
func BenchmarkAppend(b *testing.B) { benchmarkAppend(b, false) }

func benchmarkAppend(b *testing.B, sync bool) {
	l := mustNew(b, Options{Dir: filepath.Join(b.TempDir(), "log")}, realDisk())
	data := strings.Repeat("x", 1024)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	i := uint64(1)
	for b.Loop() {
		if err := l.Append(nil, []*pb.Entry{entry(i, 1, data)}, sync); err != nil {
			b.Fatal(err)
		}
		i++
	}
	must(b, l.Close())
}
