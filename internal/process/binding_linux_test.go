package process

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestBinding: a server and its children are on one processor while they do little, and on all in the end.
func TestBinding(t *testing.T) {
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil || all.Count() < 2 {
		t.Skip("there is one processor only")
	}
	server := exec.Command("sh", "-c", "sleep 60 & wait")
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		for _, pid := range group(server.Process.Pid) { // this process's threads, too, so by name
			if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); err == nil &&
				(string(b) == "sleep\n" || string(b) == "sh\n") {
				_ = unix.Kill(pid, unix.SIGKILL)
			}
		}
		_ = server.Wait()
	}()
	ctx, stop := context.WithCancel(context.Background())
	var b Binding
	var running sync.WaitGroup
	running.Go(func() { b.Run(ctx, func() int { return server.Process.Pid }, slog.New(slog.DiscardHandler)) })
	processors := func() (least, most int) {
		least = 1 << 20
		tasks := group(server.Process.Pid)
		if len(tasks) < runtime.GOMAXPROCS(0) {
			t.Fatalf("the group has %d tasks", len(tasks))
		}
		for _, pid := range tasks {
			var s unix.CPUSet
			if unix.SchedGetaffinity(pid, &s) == nil {
				least, most = min(least, s.Count()), max(most, s.Count())
			}
		}
		return least, most
	}
	await := func(what string, ok func(least, most int) bool) {
		t.Helper()
		for end := time.Now().Add(30 * time.Second); !ok(processors()); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(end) {
				least, most := processors()
				t.Fatalf("%s: %d to %d processors", what, least, most)
			}
		}
	}
	one := func(_, most int) bool { return most == 1 }
	every := func(least, _ int) bool { return least == all.Count() }
	await("idle", one)
	stop()
	running.Wait()
	await("stopped", every)
}

// TestSurvey: what tasks used is what they used, and of no others.
func TestSurvey(t *testing.T) {
	var tasks []int
	for _, does := range []string{"while :; do :; done", "exec sleep 60"} {
		p := exec.Command("sh", "-c", does)
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() {
			_ = p.Process.Kill()
			_ = p.Wait()
		}()
		tasks = append(tasks, p.Process.Pid)
	}
	used := func(task int) float64 {
		last, err := survey([]int{0}, []int{task})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(300 * time.Millisecond)
		now, err := survey([]int{0}, []int{task})
		if err != nil {
			t.Fatal(err)
		}
		_, use := now.since(last)
		return use
	}
	for end := time.Now().Add(30 * time.Second); ; { // others may leave it little
		busy, lazy := used(tasks[0]), used(tasks[1])
		if busy > 0.2 && busy < 1.2 && lazy < 0.1 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("a loop used %.2f processors, a sleeper %.2f", busy, lazy)
		}
	}
}
