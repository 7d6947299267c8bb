package process

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

var playTimers func() // of TestTimers, where there is one

// TestMain lets the test binary play a node.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "timers" {
		playTimers()
		return
	}
	if len(os.Args) > 2 && os.Args[1] == "node" {
		time.Sleep(time.Minute)
		return
	}
	os.Exit(m.Run())
}

func TestProcess(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "log")
	var never *Process
	if never.Running() {
		t.Error("a nil process runs")
	}
	never.Signal(syscall.SIGKILL) // lost
	p, err := Start(Options{Log: log, Env: []string{"WORD=heard"}}, "sh", "-c", "echo $WORD; exit 3")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(time.Minute); err != nil {
		t.Fatal(err)
	}
	var status *exec.ExitError
	if !errors.As(p.Err(), &status) || status.ExitCode() != 3 || p.Running() || Tail(log, 1) != "heard" {
		t.Errorf("ended with %v, log %q", p.Err(), Tail(log, 1))
	}
	if _, err := Start(Options{Log: log}, filepath.Join(dir, "nothing")); err == nil {
		t.Error("a command that does not exist was started")
	}
	refused := errors.New("refused")
	if _, err := Start(Options{Log: log, Enter: func() error { return refused }}, "sh"); !errors.Is(err, refused) {
		t.Errorf("Enter failed, Start returned %v", err)
	}
}

// TestOfNode finds a node by its configuration file, and nobody else.
func TestOfNode(t *testing.T) {
	if _, err := os.Stat("/proc/self/cmdline"); err != nil {
		t.Skip("needs /proc")
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "node1.toml")
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var all []*Process
	for _, args := range [][]string{{"node", "--config", config}, {"node", "--config", config + "2"}} {
		p, err := Start(Options{Log: filepath.Join(dir, "log"), Kill: true}, exe, args...)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	reader, err := Start(Options{Log: filepath.Join(dir, "log")}, "sh", "-c", "sleep 60; : "+config)
	if err != nil {
		t.Fatal(err)
	}
	all = append(all, reader)
	found := map[int]string{}
	for deadline := time.Now().Add(time.Minute); len(found) == 0 &&
		time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		found = OfNode(config, filepath.Join(dir, "node1")) // a child shows its arguments a moment later
	}
	if len(found) != 1 || !strings.Contains(found[all[0].PID()], config) {
		t.Errorf("found %v, the node is %d", found, all[0].PID())
	}
	n := 0
	for deadline := time.Now().Add(time.Minute); n != 3 && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		n = len(Leftover(dir))
	}
	if n != 3 {
		t.Errorf("%d processes name the directory, want 3", n)
	}
	for _, p := range all {
		_ = syscall.Kill(-p.PID(), syscall.SIGKILL) // its group
		if err := p.Wait(time.Minute); err != nil {
			t.Error(err)
		}
	}
	if left := Leftover(dir); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func TestAccident(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	for text, want := range map[string]string{"all is well\n": "", "x\npanic: no\n": "panic: no\n"} {
		if err := os.WriteFile(log, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := Accident(log); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}

func TestPostmaster(t *testing.T) {
	dir := t.TempDir()
	if pid := Postmaster(dir); pid != 0 {
		t.Errorf("without a lock file: %d", pid)
	}
	if err := os.WriteFile(filepath.Join(dir, "postmaster.pid"), []byte("4711\n/data\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if pid := Postmaster(dir); pid != 4711 {
		t.Errorf("read %d", pid)
	}
}
