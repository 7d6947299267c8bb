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

	"github.com/spf13/cobra"
)

// init keeps main on the process's first thread, for process.RelaxTimers.
func init() { runtime.LockOSThread() }

// ownSignals is the annotation of a command that takes the process's signals itself.
const ownSignals = "signals"

// endBySignal cancels at the first signal to end. A second one ends the process.
func endBySignal(cancel context.CancelFunc) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // as nohup has it
		signal.Notify(signals, syscall.SIGHUP)
	}
	go func() {
		<-signals
		cancel()
		<-signals
		os.Exit(130)
	}()
}

func main() {
	ctx, cancel := context.WithCancel(context.Background())
	root := rootCommand()
	root.PersistentPreRun = func(c *cobra.Command, _ []string) {
		if c.Annotations[ownSignals] == "" {
			endBySignal(cancel)
		}
	}
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "tutti:", err)
		os.Exit(exitCode(err))
	}
}
