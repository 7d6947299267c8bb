package instance

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/database/embedded"
)

// childEnv makes the test binary a program that manages a server in the directory given:
// it starts it, prints a line, waits for the end of its input, and stops it.
const childEnv = "TUTTI_TEST_INSTANCE_CHILD"

// childBinEnv hands it the binaries: another user has another cache of downloads.
const childBinEnv = "TUTTI_TEST_INSTANCE_BIN"

func childMain(dir string) int {
	err := func() error {
		b, err := embedded.Find(embedded.Options{BinDir: os.Getenv(childBinEnv)})
		if err != nil {
			return err
		}
		i := New(Options{Build: b, DataDir: filepath.Join(dir, "pg"), NoSync: true})
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if !i.Initialized() {
			if err := i.Init(ctx); err != nil {
				return err
			}
		}
		if err := i.Start(ctx); err != nil {
			return err
		}
		fmt.Println("started", os.Geteuid())
		if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
			return err
		}
		return i.Stop(ctx)
	}()
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// child runs childMain in dir until ready; closing the writer ends it.
func child(t *testing.T, dir string, cred *syscall.Credential) (*exec.Cmd, io.Closer, string) {
	t.Helper()
	self := filepath.Join(serverDir(t), "self") // where every user can run it
	exe, err := os.Executable()
	must(t, err)
	b, err := os.ReadFile(exe)
	must(t, err)
	must(t, os.WriteFile(self, b, 0o755))
	cmd := exec.Command(self)
	cmd.Dir = "/"
	bin, err := build()
	must(t, err)
	cmd.Env = append(os.Environ(), childEnv+"="+dir, childBinEnv+"="+bin.BinDir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: cred, Setpgid: true}
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "started") {
		t.Fatalf("child: %q %v", line, err)
	}
	return cmd, in, strings.TrimSpace(line)
}

// As root, an ordinary user manages a server too: no chown, no change of user.
func TestOrdinaryUser(t *testing.T) {
	t.Parallel()
	dir := serverDir(t)
	var cred *syscall.Credential
	uid := os.Geteuid()
	if uid == 0 {
		a, err := lookup("nobody")
		must(t, err)
		cred, uid = a.credential(), a.uid
		must(t, a.chown(dir))
	}
	cmd, in, line := child(t, dir, cred)
	if line != fmt.Sprint("started ", uid) {
		t.Errorf("%q, want user %d", line, uid)
	}
	must(t, in.Close())
	must(t, cmd.Wait())
	fi, err := os.Stat(filepath.Join(dir, "pg"))
	if err != nil || int(fi.Sys().(*syscall.Stat_t).Uid) != uid {
		t.Errorf("data directory: %v %v", fi, err)
	}

	// Root takes such a directory over with its owner (not "postgres").
	i := managed(t, options(t, dir))
	must(t, i.Start(timeout(t)))
	a, err := i.account()
	if err != nil || a != nil && a.uid != uid {
		t.Errorf("runs as %+v, %v", a, err)
	}
}

// The manager is killed: nobody calls Stop. The next Start has the directory for itself,
// whether the server has ended by itself (I7) or is ended (I3).
func TestManagerDies(t *testing.T) {
	t.Parallel()
	dir := serverDir(t)
	cmd, in, _ := child(t, dir, nil)
	defer in.Close()
	i := managed(t, options(t, dir))
	fails(t, i.Start(timeout(t)), "already running")
	must(t, cmd.Process.Kill())
	if cmd.Wait() == nil {
		t.Fatal("the child was not killed")
	}
	must(t, i.Start(timeout(t)))
	if !i.CleanShutdownBefore() {
		t.Error("the server was not shut down cleanly")
	}
	must(t, i.Stop(timeout(t)))
	if runtime.GOOS != "linux" {
		return // no parent-death signal: the Start above has ended the old server
	}
	cmd, in, _ = child(t, dir, nil)
	defer in.Close()
	must(t, cmd.Process.Kill())
	if cmd.Wait() == nil {
		t.Fatal("the child was not killed")
	}
	noneLeft(t, i)
}

// A directory that the server's user cannot enter is explained, not left to a log.
func TestUnreachableDirectory(t *testing.T) {
	dir := serverDir(t)
	inner := filepath.Join(dir, "closed")
	must(t, os.Mkdir(inner, 0o700))
	err := managed(t, options(t, inner)).Init(timeout(t))
	if os.Geteuid() != 0 {
		must(t, err) // the same user runs everything
		return
	}
	fails(t, err, "cannot enter "+inner, "chmod o+x")
}

func TestUnknownUser(t *testing.T) {
	if os.Geteuid() != 0 {
		if a, err := New(Options{User: "root"}).account(); a != nil || err != nil {
			t.Fatalf("an ordinary user would change to %v, %v", a, err)
		}
		return
	}
	for user, says := range map[string]string{"root": "refuses to run as root", "no-such-user": "no-such-user"} {
		o := options(t, serverDir(t))
		o.User = user
		fails(t, managed(t, o).Init(timeout(t)), says)
	}
}

// Files with a second name are not given away: it could be somebody else's file.
func TestChownTreeLeavesHardLinks(t *testing.T) {
	if os.Geteuid() != 0 {
		var none *account
		must(t, none.chownTree("/nowhere"))
		return
	}
	outer := serverDir(t)
	dir := filepath.Join(outer, "d")
	must(t, os.MkdirAll(filepath.Join(dir, "sub"), 0o700))
	secret := filepath.Join(outer, "secret")
	must(t, os.WriteFile(secret, []byte("x"), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "sub", "f"), nil, 0o600))
	must(t, os.Link(secret, filepath.Join(dir, "hard")))
	must(t, os.Symlink(secret, filepath.Join(dir, "soft")))
	a, err := lookup("nobody")
	must(t, err)
	must(t, a.chownTree(dir))
	for path, uid := range map[string]int{secret: 0, filepath.Join(dir, "sub", "f"): a.uid, dir: a.uid} {
		fi, err := os.Stat(path)
		if err != nil || int(fi.Sys().(*syscall.Stat_t).Uid) != uid {
			t.Errorf("%s: owner %v, want %d (%v)", path, fi.Sys(), uid, err)
		}
	}
}
