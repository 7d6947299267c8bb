package process

import "syscall"

// attributes gives a child a process group of its own and ends it with us.
func attributes(kill bool) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if kill {
		a.Pdeathsig = syscall.SIGKILL
	}
	return a
}
