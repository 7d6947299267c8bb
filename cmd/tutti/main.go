// Command tutti is the one binary: a member of a cluster, a demo of three, and the tools
// around them. It holds flags only; the work is in internal/.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
)

// init keeps main on the process's first thread, for process.RelaxTimers.
func init() { runtime.LockOSThread() }

func main() {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		<-signals
		cancel()
		<-signals
		os.Exit(130) // a second signal forces
	}()
	if err := rootCommand().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "tutti:", err)
		os.Exit(exitCode(err))
	}
}
