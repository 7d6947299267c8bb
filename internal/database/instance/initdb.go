package instance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"syscall"

	"github.com/tuttidb/tutti/internal/database/embedded/untar"
)

// Init creates the data directory with initdb: UTF-8, locale C.UTF-8 where the operating
// system has it, else C, data checksums, and trust for the unix socket only (I4). ctx ends
// initdb. ErrInitialized if there is anything in the directory already.
func (i *Instance) Init(ctx context.Context) error {
	return i.create(".init", false, func(work string, a *account) error {
		err := i.initdb(ctx, work, "C.UTF-8", a)
		if errors.Is(err, errNoLocale) {
			if err = i.emptyDir(work, a); err == nil {
				err = i.initdb(ctx, work, "C", a)
			}
		}
		return err
	})
}

// create runs fill on an empty directory beside the data directory, and puts it in the data
// directory's place (I1), in which there must be nothing unless it replaces that.
func (i *Instance) create(suffix string, replaces bool, fill func(work string, a *account) error) (err error) {
	i.op.Lock()
	defer i.op.Unlock()
	if err := i.validate(); err != nil {
		return err
	}
	lock, err := i.lockData()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if es, err := os.ReadDir(i.o.DataDir); err == nil && len(es) > 0 && !replaces {
		return fmt.Errorf("%s: %w", i.o.DataDir, ErrInitialized)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("data directory: %w", err)
	}
	work := i.o.DataDir + suffix
	if err := i.build(work, fill); err != nil {
		return err
	}
	return takePlace(work, i.o.DataDir)
}

// build runs fill on an empty directory work, which is complete and durable when it returns, or gone.
func (i *Instance) build(work string, fill func(work string, a *account) error) (err error) {
	a, err := i.account()
	if err != nil {
		return err
	}
	if err := i.emptyDir(work, a); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(work))
		}
	}()
	if err := fill(work, a); err != nil {
		return err
	}
	if i.o.NoSync {
		return nil
	}
	return untar.SyncTree(work)
}

// emptyDir makes dir anew, for the server's user only.
func (i *Instance) emptyDir(dir string, a *account) error {
	err := os.RemoveAll(dir)
	if err == nil {
		err = os.Mkdir(dir, 0o700)
	}
	if err == nil {
		err = a.chown(dir)
	}
	if err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	return errors.Join(a.reachable(dir), a.reachable(i.o.Build.BinDir))
}

var errNoLocale = errors.New("the operating system does not have the locale")

func (i *Instance) initdb(ctx context.Context, dir, locale string, a *account) error {
	cmd := exec.CommandContext(ctx, i.o.Build.Program("initdb"),
		"--pgdata="+dir,
		"--username="+i.o.Superuser,
		"--encoding=UTF8",
		"--locale="+locale,
		"--data-checksums",
		"--auth-local=trust",
		"--auth-host=reject",
		"--no-instructions",
		"--no-sync", // create does it, for both ways to make a data directory
	)
	cmd.Dir = dir
	cmd.Env = i.environment()
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: a.credential()}
	// initdb removes what it made when interrupted; its own child goes with it.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = quitTimeout
	out, err := cmd.CombinedOutput()
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	} else if bytes.Contains(out, []byte("invalid locale name")) {
		return errNoLocale
	}
	if len(out) > logTailBytes {
		out = out[len(out)-logTailBytes:]
	}
	return fmt.Errorf("initdb in %s: %w\n%s", dir, err, bytes.TrimSpace(out))
}
