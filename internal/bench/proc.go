package bench

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// procDir is where Linux shows processes.
const procDir = "/proc"

// userTick is the unit of the times in /proc: USER_HZ is 100 wherever Go runs.
const userTick = 10 * time.Millisecond

// procTimes is what /proc/<pid>/stat says of a process.
type procTimes struct {
	own    time.Duration // user and system time
	reaped time.Duration // of children that ended and were waited for
}

// parseStat reads "pid (name) state ppid …". The name may hold anything but NUL.
func parseStat(b []byte) (procTimes, error) {
	end := bytes.LastIndexByte(b, ')')
	if end < 0 {
		return procTimes{}, errors.New("no process name")
	}
	fields := strings.Fields(string(b[end+1:]))
	const utime = 11 // counted from the state, which is field 3 of proc(5)
	if len(fields) < utime+4 {
		return procTimes{}, fmt.Errorf("only %d fields", len(fields))
	}
	var v [4]time.Duration
	for i := range v {
		n, err := strconv.ParseInt(fields[utime+i], 10, 64)
		if err != nil {
			return procTimes{}, err
		}
		v[i] = time.Duration(n) * userTick
	}
	return procTimes{own: v[0] + v[1], reaped: v[2] + v[3]}, nil
}

func procPath(pid int, file ...string) string {
	return filepath.Join(append([]string{procDir, strconv.Itoa(pid)}, file...)...)
}

// readTimes is a process's CPU time so far.
func readTimes(pid int) (procTimes, error) {
	b, err := os.ReadFile(procPath(pid, "stat"))
	if err != nil {
		return procTimes{}, err
	}
	t, err := parseStat(b)
	if err != nil {
		return procTimes{}, fmt.Errorf("%s: %w", procPath(pid, "stat"), err)
	}
	return t, nil
}

// machineTimes is what all cores have done since they started.
type machineTimes struct{ busy, all time.Duration }

// parseMachine reads the first line of /proc/stat: user nice system idle iowait irq softirq
// steal, and what is contained in these.
func parseMachine(b []byte) (t machineTimes, err error) {
	line, _, _ := bytes.Cut(b, []byte("\n"))
	fields := strings.Fields(string(line))
	if len(fields) < 9 || fields[0] != "cpu" {
		return t, fmt.Errorf("%q is not the sum of all cores", line)
	}
	for i, f := range fields[1:9] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return t, err
		}
		d := time.Duration(n) * userTick
		t.all += d
		if idle := i == 3 || i == 4; !idle {
			t.busy += d
		}
	}
	return t, nil
}

func readMachine() (machineTimes, error) {
	b, err := os.ReadFile(filepath.Join(procDir, "stat"))
	if err != nil {
		return machineTimes{}, err
	}
	return parseMachine(b)
}

// children lists the processes a single-threaded process has started and not waited for.
func children(pid int) (pids []int, err error) {
	b, err := os.ReadFile(procPath(pid, "task", strconv.Itoa(pid), "children"))
	if err != nil {
		return nil, err
	}
	for _, f := range strings.Fields(string(b)) {
		n, err := strconv.Atoi(f)
		if err != nil {
			return nil, err
		}
		pids = append(pids, n)
	}
	return pids, nil
}

// title is a process's command line; empty when it has ended.
func title(pid int) string {
	b, err := os.ReadFile(procPath(pid, "cmdline"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(strings.ReplaceAll(string(b), "\x00", " "))
}

// procWorks says why CPU times cannot be read here, or nil.
func procWorks() error {
	if _, err := readTimes(os.Getpid()); err != nil {
		return err
	}
	if _, err := readMachine(); err != nil {
		return err
	}
	_, err := children(os.Getpid())
	return err
}
