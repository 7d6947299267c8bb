package instance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// How long processes of an earlier life are given, and how often they are looked at.
const (
	orphanTimeout = time.Second     // children without postmaster, after SIGQUIT
	quitTimeout   = 8 * time.Second // an immediate shutdown; PostgreSQL itself kills after 5 s
	goneTimeout   = 10 * time.Second
	gonePoll      = 10 * time.Millisecond
)

// clearLeftovers ends whatever still runs on the data directory (I3) and removes lock files
// whose process id now belongs to some other program, which PostgreSQL would respect.
func (i *Instance) clearLeftovers(ctx context.Context) error {
	pids, err := serversOn(i.o.DataDir)
	if err != nil {
		return err
	}
	pidFile := filepath.Join(i.o.DataDir, "postmaster.pid")
	recorded, err := lockFilePid(pidFile)
	if err != nil {
		return err
	}
	if len(pids) > 0 {
		if err := i.endLeftovers(ctx, pids, recorded); err != nil {
			return err
		}
	}
	return i.clearLockFile(pidFile, pids)
}

// clearSocketLock does the same for the socket's lock file, which names its data directory
// in the second line: another server's is left alone.
func (i *Instance) clearSocketLock() error {
	path := i.SocketPath() + ".lock"
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("lock file: %w", err)
	}
	lines := bytes.SplitN(b, []byte("\n"), 3)
	if len(lines) < 3 || string(lines[1]) != i.o.DataDir {
		return nil
	}
	return i.clearLockFile(path, nil)
}

func (i *Instance) endLeftovers(ctx context.Context, pids []int, recorded int) error {
	if _, err := os.Stat(filepath.Join(i.o.DataDir, confName)); err != nil {
		return fmt.Errorf("data directory %s: %w: PostgreSQL processes %v, which Tutti did not start; stop them first",
			i.o.DataDir, ErrRunning, pids)
	}
	if recorded < 0 && slices.Contains(pids, -recorded) {
		return fmt.Errorf("data directory %s: %w: a single-user PostgreSQL, process %d; end it first",
			i.o.DataDir, ErrRunning, -recorded)
	}
	if slices.Contains(pids, recorded) {
		i.log.Warn("stopping the server of an earlier life", "pid", recorded)
		for _, step := range []struct {
			sig  syscall.Signal
			wait time.Duration
		}{{syscall.SIGINT, i.o.StopTimeout}, {syscall.SIGQUIT, quitTimeout}} {
			_ = syscall.Kill(recorded, step.sig) // gone is fine
			gone, err := i.awaitGone(ctx, step.wait)
			if gone || err != nil {
				return err
			}
		}
	} else {
		i.log.Warn("ending processes whose server died", "pids", pids)
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGQUIT)
		}
		if gone, err := i.awaitGone(ctx, orphanTimeout); gone || err != nil {
			return err
		}
	}
	rest, err := serversOn(i.o.DataDir)
	if err != nil {
		return err
	}
	for _, pid := range rest {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	gone, err := i.awaitGone(ctx, goneTimeout)
	if err == nil && !gone {
		err = fmt.Errorf("data directory %s: processes %v of an earlier server cannot be killed", i.o.DataDir, rest)
	}
	return err
}

// awaitGone waits until no server process is left on the data directory.
func (i *Instance) awaitGone(ctx context.Context, limit time.Duration) (bool, error) {
	deadline := time.Now().Add(limit)
	for {
		pids, err := serversOn(i.o.DataDir)
		if err != nil || len(pids) == 0 {
			return err == nil, err
		}
		if time.Now().After(deadline) {
			return false, nil
		}
		select {
		case <-ctx.Done():
			return false, fmt.Errorf("waiting for processes %v of an earlier server: %w", pids, context.Cause(ctx))
		case <-time.After(gonePoll):
		}
	}
}

// lockFilePid reads the first line of postmaster.pid or of a socket's lock file: 0 without
// file, negative for a single-user server.
func lockFilePid(path string) (int, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("lock file: %w", err)
	}
	line, _, _ := bytes.Cut(b, []byte("\n"))
	pid, err := strconv.Atoi(string(bytes.TrimSpace(line)))
	if err != nil {
		return 0, nil // cut off by a crash: no process is named
	}
	return pid, nil
}

// clearLockFile removes a lock file whose process id lives but is none of the server
// processes in ended: the id was handed out again. Files of dead processes are left to
// PostgreSQL, which checks the shared memory they name.
func (i *Instance) clearLockFile(path string, ended []int) error {
	pid, err := lockFilePid(path)
	if err != nil || pid == 0 {
		return err
	}
	pid = max(pid, -pid)
	if slices.Contains(ended, pid) || errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return nil
	}
	i.log.Warn("removing a stale lock file: its process id belongs to another program", "file", path, "pid", pid)
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("stale lock file: %w", err)
	}
	return nil
}
