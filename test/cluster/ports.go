package cluster

import (
	"fmt"
	"math/rand/v2"
	"net"
)

// Ports are taken from here: below the kernel's range for outgoing connections (T2).
const (
	portMin = 10000
	portMax = 30000
)

// freePorts finds n ports of 127.0.0.1 that nobody listens on.
func freePorts(n int) ([]int, error) {
	var ports []int
	for range 1000 {
		if len(ports) == n {
			return ports, nil
		}
		p := portMin + rand.IntN(portMax-portMin)
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", p))
		if err != nil {
			continue
		}
		defer l.Close() // after all are chosen, so that they differ
		ports = append(ports, p)
	}
	return nil, fmt.Errorf("no %d free ports between %d and %d", n, portMin, portMax)
}

// freeRun finds n ports in a row that nobody listens on, and returns the first.
func freeRun(n int) (int, error) {
	for range 100 {
		first := portMin + rand.IntN(portMax-portMin)
		free := true
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
