package cluster

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// Ports are taken from here: below the kernel's range for outgoing connections (T2).
const (
	portMin = 10000
	portMax = 30000
)

// given are the ports that this process has chosen: a cluster listens on its own only when its nodes run, and
// another that starts beside it must not choose them.
var given struct {
	sync.Mutex
	ports map[int]bool
}

// take reports whether the n ports from first on were not chosen yet, and chooses them.
func take(first, n int) bool {
	given.Lock()
	defer given.Unlock()
	for p := first; p < first+n; p++ {
		if given.ports[p] {
			return false
		}
	}
	if given.ports == nil {
		given.ports = map[int]bool{}
	}
	for p := first; p < first+n; p++ {
		given.ports[p] = true
	}
	return true
}

// freePorts finds n ports of 127.0.0.1 that nobody listens on.
func freePorts(n int) ([]int, error) {
	var ports []int
	for range 1000 {
		if len(ports) == n {
			return ports, nil
		}
		p := portMin + rand.IntN(portMax-portMin)
		if !take(p, 1) {
			continue
		}
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", p))
		if err != nil {
			continue
		}
		defer l.Close() // after all are chosen
		ports = append(ports, p)
	}
	return nil, fmt.Errorf("no %d free ports between %d and %d", n, portMin, portMax)
}

// freeRun finds n ports in a row that nobody listens on, and returns the first.
func freeRun(n int) (int, error) {
	for range 100 {
		first := portMin + rand.IntN(portMax-portMin)
		free := take(first, n)
		for p := first; p < first+n && free; p++ {
			l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", p))
			if free = err == nil; free {
				_ = l.Close() // nothing was accepted
			}
		}
		if free {
			return first, nil
		}
	}
	return 0, fmt.Errorf("no %d free ports in a row between %d and %d", n, portMin, portMax)
}
