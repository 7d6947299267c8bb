package transport

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// progressOf returns what the other side's kernel has acknowledged of what was written to c. ok is false when this one
// does not say, or c is closed. A process that is busy, or stopped, changes nothing: its kernel acknowledges for it,
// also that its buffer is full.
func progressOf(c net.Conn) (p progress, ok bool) {
	tcp, isTCP := c.(*net.TCPConn)
	if !isTCP {
		return p, false
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return p, false
	}
	var info *unix.TCPInfo
	if err := raw.Control(func(fd uintptr) {
		info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP,
			unix.TCP_INFO)
	}); err != nil || info == nil || info.Bytes_acked == 0 {
		return p, false // also a kernel that does not count them: the handshake's have been acknowledged
	}
	return progress{bytes: info.Bytes_acked, owed: info.Unacked > 0, rtt: time.Duration(info.Rtt) * time.Microsecond},
		true
}
