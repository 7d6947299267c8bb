//go:build !linux

package transport

import "net"

// progressOf knows nothing here; silence alone ends connections.
func progressOf(net.Conn) (p progress, ok bool) { return p, false }
