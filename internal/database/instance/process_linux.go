package instance

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// dieWithParent asks for a fast shutdown when this process dies without calling Stop (I7).
func dieWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGINT }

// eachProcess calls f with every process that is alive.
func eachProcess(f func(pid, ppid int, name string)) error {
	es, err := os.ReadDir("/proc")
	if err != nil {
		return fmt.Errorf("listing processes: %w", err)
	}
	for _, e := range es {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		b, err := os.ReadFile(filepath.Join("/proc", e.Name(), "stat"))
		if err != nil {
			continue // it has ended
		}
		if ppid, name, alive := parseStat(b); alive {
			f(pid, ppid, name)
		}
	}
	return nil
}

// parseStat reads "pid (name) state ppid ...". The name may hold anything but NUL.
func parseStat(b []byte) (ppid int, name string, alive bool) {
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 0 || end < open {
		return 0, "", false
	}
	fields := bytes.Fields(b[end+1:])
	if len(fields) < 2 || len(fields[0]) != 1 || bytes.ContainsAny(fields[0], "ZX") {
		return 0, "", false
	}
	ppid, err := strconv.Atoi(string(fields[1]))
	return ppid, string(b[open+1 : end]), err == nil
}

func childrenOf(parent int) (pids []int, err error) {
	err = eachProcess(func(pid, ppid int, _ string) {
		if ppid == parent {
			pids = append(pids, pid)
		}
	})
	return pids, err
}

// serversOn lists the live PostgreSQL processes whose working directory is dataDir: the
// postmaster and its children, or the children of one that died.
func serversOn(dataDir string) (pids []int, err error) {
	want, err := os.Stat(dataDir)
	if err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	err = eachProcess(func(pid, _ int, name string) {
		if name != "postgres" && name != "postmaster" {
			return
		}
		cwd, err := os.Stat(filepath.Join("/proc", strconv.Itoa(pid), "cwd"))
		if err == nil && os.SameFile(cwd, want) {
			pids = append(pids, pid)
		}
	})
	return pids, err
}
