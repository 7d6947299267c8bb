package instance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gofrs/flock"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tuttidb/tutti/internal/database/embedded"
)

const (
	sharedMemoryRetries = 50 // every 200 ms
	sharedMemoryPause   = 200 * time.Millisecond
	readyPollMin        = 4 * time.Millisecond
	readyPollMax        = 100 * time.Millisecond
	logTailBytes        = 4096
)

// sharedMemoryInUse is what PostgreSQL logs while processes of a killed server still live.
const sharedMemoryInUse = "pre-existing shared memory block"

// Start ends what an earlier life left running, launches the server and waits until it
// accepts connections, through recovery if need be: ctx bounds the wait. On error nothing
// runs; the error holds the end of the server's log. ErrRunning if it runs already.
func (i *Instance) Start(ctx context.Context) (err error) {
	i.op.Lock()
	defer i.op.Unlock()
	if err := i.validate(); err != nil {
		return err
	}
	if r := i.current(); r != nil {
		return fmt.Errorf("data directory %s: %w: process %d", i.o.DataDir, ErrRunning, r.pid)
	}
	if err := i.checkVersion(); err != nil {
		return err
	}
	lock, err := i.lockData()
	if err != nil {
		return err
	}
	launched := false
	defer func() {
		if !launched {
			err = errors.Join(err, lock.Close())
		}
	}()
	a, err := i.prepareStart(ctx)
	if err != nil {
		return err
	}
	for try := 0; ; try++ {
		out, offset, err := i.openLog(a)
		if err != nil {
			return err
		}
		r, err := i.spawn(a, out, lock)
		if cerr := out.Close(); cerr != nil {
			i.log.Warn("closing our copy of the server log", "err", cerr)
		}
		if err != nil {
			return err
		}
		launched = true
		if err = i.awaitReady(ctx, r, offset); err == nil {
			i.announce(r, offset)
			go i.watchLog(r)
			return nil
		}
		if !strings.Contains(err.Error(), sharedMemoryInUse) || try >= sharedMemoryRetries || ctx.Err() != nil {
			return i.explain(ctx, a, err)
		}
		time.Sleep(sharedMemoryPause)
		launched = false
		if lock, err = i.lockData(); err != nil {
			launched = true // nothing to unlock
			return err
		}
	}
}

// checkVersion refuses a directory without database, or of another major version.
func (i *Instance) checkVersion() error {
	major, err := embedded.DataMajor(i.o.DataDir)
	switch {
	case err != nil:
		return err
	case major == 0:
		return fmt.Errorf("data directory %s holds no database: Init or Clone it first", i.o.DataDir)
	case major != i.o.Build.Major:
		return embedded.Setupf("data directory %s is of PostgreSQL %d, the binaries in %s are %s: "+
			"use those of version %d, or join with an empty directory", i.o.DataDir, major, i.o.Build.BinDir,
			i.o.Build.Version, major)
	}
	return nil
}

// prepareStart brings everything on disk to what the server needs.
func (i *Instance) prepareStart(ctx context.Context) (*account, error) {
	a, err := i.account()
	if err != nil {
		return nil, err
	}
	if err := i.clearLeftovers(ctx); err != nil {
		return nil, err
	}
	state, err := readControl(i.o.DataDir)
	if err != nil {
		return nil, err
	}
	if err := i.writeSettings(a); err != nil {
		return nil, err
	}
	if err := a.chownTree(i.o.DataDir); err != nil {
		return nil, err
	}
	if err := i.prepareSocketDir(a); err != nil {
		return nil, err
	}
	if err := i.clearSocketLock(); err != nil {
		return nil, err
	}
	reached := []string{i.o.DataDir, i.SocketDir(), i.o.Build.BinDir}
	if i.rotates() {
		reached = append(reached, filepath.Dir(i.o.LogFile))
	}
	for _, dir := range reached {
		if err := a.reachable(dir); err != nil {
			return nil, err
		}
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.clean = state == dbShutdowned || state == dbShutdownedRecovery
	return a, nil
}

// arguments are those of the server's program.
func (i *Instance) arguments() []string {
	args := []string{"-D", i.o.DataDir,
		"-c", "port=" + strconv.Itoa(i.o.Port),
		"-c", "unix_socket_directories=" + guc(i.SocketDir()),
		"-c", "restart_after_crash=off"} // it could look like a clean end to the next start
	settings := i.effective()
	for _, name := range commandLine {
		args = append(args, "-c", name+"="+settings[name])
	}
	return args
}

// spawn launches the server. The lock is released when it has ended, or at once on error.
func (i *Instance) spawn(a *account, out *os.File, lock *flock.Flock) (*run, error) {
	cmd := exec.Command(i.o.Build.Program("postgres"), i.arguments()...)
	cmd.Dir = i.o.DataDir
	cmd.Env = i.environment()
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: a.credential()}
	r, err := launch(cmd, i.o.Yields, func() {
		if i.rotates() {
			// for the end of the log; who stays is ended at the next start
			_, _ = i.awaitGone(context.Background(), collectorEnds)
		}
		if err := lock.Close(); err != nil {
			i.log.Error("unlocking the data directory", "err", err)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("launching %s: %w", cmd.Path, err)
	}
	i.mu.Lock()
	i.run = r
	i.mu.Unlock()
	i.log.Info("PostgreSQL launched", "pid", r.pid, "build", i.o.Build.String())
	return r, nil
}

// guc quotes a path for a list-valued setting.
func guc(path string) string { return `"` + strings.ReplaceAll(path, `"`, `""`) + `"` }

// awaitReady returns nil once the server answers connections. On error it has ended.
func (i *Instance) awaitReady(ctx context.Context, r *run, offset int64) error {
	pause := readyPollMin
	for {
		select {
		case <-r.done:
			return fmt.Errorf("PostgreSQL did not start on %s: %v\n%s", i.o.DataDir, r.err, i.logTail(offset))
		case <-ctx.Done():
			err := fmt.Errorf("PostgreSQL on %s was not ready in time: %w\n%s",
				i.o.DataDir, context.Cause(ctx), i.logTail(offset))
			stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), i.o.StopTimeout)
			defer cancel()
			if serr := i.end(stop, r); serr != nil && !errors.Is(serr, ErrUnclean) {
				err = errors.Join(err, serr)
			}
			return err
		case <-time.After(pause):
		}
		if i.accepts(ctx) {
			return nil
		}
		pause = min(pause*3/2, readyPollMax)
	}
}

// accepts reports whether the server is past its startup. A refusal that is not "starting
// up" counts: the role or database asked for may not exist in a clone.
func (i *Instance) accepts(ctx context.Context) bool {
	if _, err := os.Lstat(i.SocketPath()); err != nil {
		return false
	}
	c, err := pgconn.Connect(ctx, i.ConnString("", ""))
	if err != nil {
		var pe *pgconn.PgError
		return errors.As(err, &pe) && pe.Code != "57P03"
	}
	_ = c.Close(ctx) // the server notices anyway
	return true
}

// announce publishes the run's end on a new channel.
func (i *Instance) announce(r *run, offset int64) {
	exited := make(chan error, 1)
	i.mu.Lock()
	i.exited = exited
	i.mu.Unlock()
	go func() {
		<-r.done
		if !r.stopping.Load() {
			exited <- fmt.Errorf("PostgreSQL (process %d on %s) ended unexpectedly: %v\n%s",
				r.pid, i.o.DataDir, r.err, i.logTail(offset))
		} else {
			exited <- nil
		}
		close(exited)
	}()
}

// openLog opens the log for appending and says where this start's output will begin. A log
// that has grown too large is moved aside first.
func (i *Instance) openLog(a *account) (*os.File, int64, error) {
	most := int64(maxLogBytes)
	if i.o.LogBytesMax > 0 {
		most = i.o.LogBytesMax
	}
	if fi, err := os.Stat(i.o.LogFile); err == nil && fi.Size() > most {
		if err := i.moveLog(a); err != nil {
			return nil, 0, err
		}
	}
	f, err := os.OpenFile(i.o.LogFile, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o640)
	if err != nil {
		return nil, 0, fmt.Errorf("server log: %w", err)
	}
	if a != nil && i.rotates() {
		err = f.Chown(a.uid, a.gid) // the collector opens it, too
	}
	fi, serr := f.Stat()
	if err = errors.Join(err, serr); err != nil {
		return nil, 0, errors.Join(fmt.Errorf("server log: %w", err), f.Close())
	}
	return f, fi.Size(), nil
}

// logTail is the end of what the server wrote after offset, for error messages.
func (i *Instance) logTail(offset int64) string {
	f, err := os.Open(i.o.LogFile)
	if err != nil {
		return "(no log: " + err.Error() + ")"
	}
	defer f.Close()
	if fi, err := f.Stat(); err == nil {
		if fi.Size() < offset { // it was moved aside since
			offset = 0
		}
		offset = max(offset, fi.Size()-logTailBytes)
	}
	b, err := io.ReadAll(io.NewSectionReader(f, offset, logTailBytes))
	if err != nil {
		return "(no log: " + err.Error() + ")"
	}
	return string(bytes.TrimSpace(b))
}
