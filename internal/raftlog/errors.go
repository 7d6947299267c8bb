package raftlog

import (
	"errors"
	"fmt"
	"syscall"
)

// ErrClosed is returned by every method after Close.
var ErrClosed = errors.New("raftlog: the log is closed")

// ErrLocked is in the chain of Open's error when another process, or another Log of this one,
// has the directory open.
var ErrLocked = errors.New("the directory is in use")

// ErrCorrupt is in the chain of every error about damaged files.
var ErrCorrupt = errors.New("the raft log is damaged")

// corrupt describes damage in one file. The advice is the same everywhere: a member
// whose log is lost must not come back under its old identity, because it may have forgotten votes.
func corrupt(path string, off int64, why error) error {
	return fmt.Errorf("raftlog: %w: %s at offset %d: %w; put the file back as it was, or leave this member stopped: "+
		"it must not vote again without its log",
		ErrCorrupt, path, off, why)
}

// poison makes err the answer to every later call (L4). Callers hold l.mu.
func (l *Log) poison(doing, path string, err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		l.failed = fmt.Errorf("raftlog: no space left in directory %s while %s %s: %w; free space and restart, "+
			"nothing acknowledged is lost",
			l.o.Dir, doing, path, err)
	} else {
		l.failed = fmt.Errorf("raftlog: %s %s failed: %w; the log takes no further calls, check the disk and restart",
			doing, path, err)
	}
	return l.failed
}
