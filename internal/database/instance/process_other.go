//go:build !linux

package instance

import (
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// dieWithParent does nothing: only Linux has parent-death signals. The next Start stops the
// server that was left.
func dieWithParent(*syscall.SysProcAttr) {}

// eachProcess calls f with every process that is alive.
func eachProcess(f func(pid, ppid int, command string)) error {
	out, err := exec.Command("ps", "-axo", "pid=,ppid=,stat=,command=").Output()
	if err != nil {
		return fmt.Errorf("listing processes: %w", err)
	}
	for line := range strings.Lines(string(out)) {
		w := strings.Fields(line)
		if len(w) < 4 || strings.HasPrefix(w[2], "Z") {
			continue
		}
		pid, err := strconv.Atoi(w[0])
		ppid, err2 := strconv.Atoi(w[1])
		if err == nil && err2 == nil {
			f(pid, ppid, strings.Join(w[3:], " "))
		}
	}
	return nil
}

func childrenOf(parent int) (pids []int, err error) {
	err = eachProcess(func(pid, ppid int, _ string) {
		if ppid == parent {
			pids = append(pids, pid)
		}
	})
	return pids, err
}

// serversOn lists the postmaster that was started with -D dataDir, and its children. The
// children of a postmaster that died are not found: they end by themselves, and Start
// retries while they hold the shared memory.
func serversOn(dataDir string) (pids []int, err error) {
	err = eachProcess(func(pid, _ int, command string) {
		if strings.Contains(command, "postgres -D "+dataDir+" ") {
			pids = append(pids, pid)
		}
	})
	for _, p := range slices.Clone(pids) {
		children, cerr := childrenOf(p)
		if cerr != nil {
			return pids, cerr
		}
		pids = append(pids, children...)
	}
	return pids, err
}
