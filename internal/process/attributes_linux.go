package process

import "syscall"

// attributes gives a child a session of its own, as a service has, and ends it with us.
func attributes(kill bool) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGTERM}
	if kill {
		a.Pdeathsig = syscall.SIGKILL
	}
	return a
}
