package demo

import "syscall"

// childAttributes gives a node a session of its own, and ends it with us. Linux divides processors between sessions
// first (autogroups), and every backend of PostgreSQL is one: nodes that shared one, on several processors, got so much
// more than their part that new backends waited for seconds.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGTERM}
}
