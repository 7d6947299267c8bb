package instance

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/tuttidb/tutti/internal/process"
)

// With Options.LogBytesMax the server's own logging collector writes LogFile, and moves on to a new one of this name
// when it is told to, as logrotate has it do. So no line is lost, whatever becomes of this process, and nobody waits
// for it to write.

const (
	collectorEnds = time.Second // that the collector has to write what the server said last
	rotateSignal  = "logrotate" // the file of pg_ctl logrotate, which tells the postmaster what SIGUSR1 means
)

// rotateInterval is between two looks at the log's size; tests shorten it.
var rotateInterval = time.Second

// logSettings make the collector write LogFile.
func (i *Instance) logSettings() map[string]string {
	if i.o.LogBytesMax <= 0 {
		return nil
	}
	return map[string]string{
		"logging_collector": "on", "log_destination": "stderr", "log_directory": filepath.Dir(i.o.LogFile),
		"log_filename":     strings.ReplaceAll(filepath.Base(i.o.LogFile), "%", "%%"),
		"log_rotation_age": "0", "log_rotation_size": "0", "log_file_mode": "0640",
	}
}

// rotates reports whether the collector writes LogFile. Settings of the user's own may have it do something else, or
// nothing.
func (i *Instance) rotates() bool {
	own := i.logSettings()
	all := i.effective()
	for name, value := range own {
		if all[name] != value {
			return false
		}
	}
	return len(own) > 0
}

// logFilesMax is how many files there are of the log, the present one included.
func (i *Instance) logFilesMax() int { return max(2, i.o.LogFilesMax) }

// moveLog moves the log aside, those before it by one further, and begins an empty one.
func (i *Instance) moveLog(a *account) error {
	numbered := func(n int) string { return fmt.Sprintf("%s.%d", i.o.LogFile, n) }
	for n := i.logFilesMax() - 1; n > 1; n-- {
		if err := os.Rename(numbered(n-1), numbered(n)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("server log: %w", err)
		}
	}
	fresh := i.o.LogFile + ".new"
	if err := os.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("server log: %w", err)
	}
	f, err := os.OpenFile(fresh, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o640)
	if err != nil {
		return fmt.Errorf("server log: %w", err)
	}
	if a != nil { // the collector cannot make one where it may not write
		err = f.Chown(a.uid, a.gid)
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(i.o.LogFile, numbered(1))
	}
	if err == nil {
		err = os.Rename(fresh, i.o.LogFile)
	}
	if err != nil {
		return fmt.Errorf("server log: %w", err)
	}
	return nil
}

// watchLog moves the log aside whenever it has grown too large, until the server has ended.
func (i *Instance) watchLog(r *run) {
	a, err := i.account()
	if err != nil || !i.rotates() {
		return
	}
	t := time.NewTimer(process.ToBeat(rotateInterval))
	defer t.Stop()
	for {
		select {
		case <-r.done:
			return
		case <-t.C:
		}
		t.Reset(process.ToBeat(rotateInterval))
		moved, err := i.rotate(r, a)
		if err != nil {
			i.log.Error("the server log cannot be moved aside", "err", err)
		}
		if moved {
			i.log.Info("the server log was moved aside", "file", i.o.LogFile)
		}
	}
}

// rotate moves the log aside if it is too large, and tells the collector; again, if that has not heard it.
func (i *Instance) rotate(r *run, a *account) (moved bool, err error) {
	now, err := os.Stat(i.o.LogFile)
	if err != nil {
		return false, err
	}
	if now.Size() > i.o.LogBytesMax {
		if err := i.moveLog(a); err != nil {
			return false, err
		}
		moved = true
	} else if last, err := os.Stat(i.o.LogFile + ".1"); err != nil || now.Size() > 0 ||
		!last.ModTime().After(now.ModTime()) {
		return false, nil
	}
	root, err := os.OpenRoot(i.o.DataDir)
	if err != nil {
		return moved, err
	}
	defer root.Close()
	if err := root.Remove(rotateSignal); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return moved, err
	}
	f, err := root.OpenFile(rotateSignal, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return moved, err
	}
	_ = r.process.Signal(syscall.SIGUSR1) // has ended: fine
	return moved, f.Close()
}
