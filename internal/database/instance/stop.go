package instance

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"
)

// Stop shuts the server down: fast first (sessions are ended, a checkpoint is written); if
// that takes longer than Options.StopTimeout, or than ctx allows, immediately; at last by
// force. It returns when the process has ended. ErrUnclean if it had to be forced, for
// example because a base backup's receiver stalled. nil if nothing runs.
func (i *Instance) Stop(ctx context.Context) error {
	r := i.current()
	if r == nil {
		return nil
	}
	return i.end(ctx, r)
}

func (i *Instance) end(ctx context.Context, r *run) error {
	r.stopping.Store(true)
	fast, cancel := context.WithTimeout(ctx, i.o.StopTimeout)
	defer cancel()
	_ = r.process.Signal(syscall.SIGINT) // has ended: fine
	select {
	case <-r.done:
		return nil
	case <-fast.Done():
	}
	i.log.Warn("the fast shutdown takes too long, shutting down immediately", "pid", r.pid)
	_ = r.process.Signal(syscall.SIGQUIT)
	quit := time.NewTimer(quitTimeout)
	defer quit.Stop()
	select {
	case <-r.done:
	case <-quit.C:
		i.log.Warn("the immediate shutdown takes too long, killing", "pid", r.pid)
		if err := i.kill(r); err != nil {
			return err
		}
	}
	return fmt.Errorf("stopping PostgreSQL (process %d): %w", r.pid, ErrUnclean)
}

// Kill ends the server and its children with SIGKILL, as a crash would, and returns when all
// are gone. nil if nothing runs.
func (i *Instance) Kill() error {
	r := i.current()
	if r == nil {
		return nil
	}
	return i.kill(r)
}

func (i *Instance) kill(r *run) error {
	err := r.killTree()
	if err == nil {
		var gone bool
		if gone, err = i.awaitGone(context.Background(), goneTimeout); err == nil && !gone {
			err = errors.New("its children are still there")
		}
	}
	if err != nil {
		return fmt.Errorf("killing PostgreSQL (process %d): %w", r.pid, err)
	}
	return nil
}
