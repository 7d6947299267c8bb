package cluster

import "syscall"

// attributes gives a node a process group of its own and ends it with the tests.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
