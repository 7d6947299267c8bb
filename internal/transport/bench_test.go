package transport

import (
	"net"
	"testing"
	"time"
)

// both runs a benchmark in the clear and with TLS.
func both(b *testing.B, run func(b *testing.B, encrypted bool)) {
	b.Helper()
	b.Run("clear", func(b *testing.B) { run(b, false) })
	b.Run("TLS", func(b *testing.B) { run(b, true) })
}

// BenchmarkSend sends frames of 1 KB over loopback as fast as the receiver takes them.
func BenchmarkSend(b *testing.B) { both(b, benchmarkSend) }

func benchmarkSend(b *testing.B, encrypted bool) {
	one, took := benchmarkPair(b, encrypted)
	b.SetBytes(1024)
	b.ReportAllocs()
	sent, seen := 0, 0
	for b.Loop() {
		for !one.Send(2, make([]byte, 1024)) {
			<-took
			seen++
		}
		sent++
	}
	for ; seen < sent; seen++ {
		<-took
	}
}

// BenchmarkLatency is one frame at a time, one way.
func BenchmarkLatency(b *testing.B) { both(b, benchmarkLatency) }

func benchmarkLatency(b *testing.B, encrypted bool) {
	one, took := benchmarkPair(b, encrypted)
	for b.Loop() {
		one.Send(2, make([]byte, 100))
		<-took
	}
}

func benchmarkPair(b *testing.B, encrypted bool) (*Transport, chan struct{}) {
	b.Helper()
	took := make(chan struct{}, 1<<20)
	var listeners [2]net.Listener
	for i := range listeners {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		listeners[i] = l
	}
	ca, out := newAuthority(b), [2]*Transport{}
	for i := range out {
		credentials := known(secret)
		if encrypted {
			credentials = secured(ca.member(b, uint32(i+1)))
		}
		tr, err := New(Options{
			Self: uint32(i + 1), Cluster: "bench", Listener: listeners[i], Credentials: credentials,
			PeerName: memberName,
			Peers:    map[uint32]string{uint32(2 - i): listeners[1-i].Addr().String()},
			Handler:  func(uint32, []byte) { took <- struct{}{} },
		})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { tr.Close() })
		out[i] = tr
	}
	for !out[0].Stats()[2].Connected {
		time.Sleep(time.Millisecond)
	}
	return out[0], took
}
