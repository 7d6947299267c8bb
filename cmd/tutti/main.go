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
	root := &cobra.Command{
		Use: "tutti", Short: "Several PostgreSQL servers, one database",
		SilenceUsage: true, SilenceErrors: true,
	}
	root.AddCommand(demoCommand(), nodeCommand(), statusCommand(), checkCommand(), simCommand(), benchCommand(), chaosCommand())
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "tutti:", err)
		os.Exit(exitCode(err))
	}
}
