package node

import (
	"log/slog"
	"os"
	ossignal "os/signal"
	"runtime"
	"syscall"

	"github.com/tuttidb/tutti/internal/config"
)

// exitForced is how the process ends that a further signal ends at once.
const exitForced = 130

// stacksMax bounds what SIGQUIT writes into the log.
const stacksMax = 16 << 20

// Obey has the node do what the process's signals say, from now on:
//
//	SIGTERM                 stop as Drain does; again: as StopNow; once more: exit at once, PostgreSQL stops by itself
//	SIGINT                  stop as StopNow; again: exit at once
//	SIGQUIT                 write into the log what every goroutine does, and stop as SIGINT
//	SIGHUP                  read the configuration again
//	SIGUSR1, SIGUSR2        nothing
//	SIGPIPE                 nothing: who has read the log is gone, and the node goes on without it
//
// None of them loses anything that a client was told: what is committed is on disk at a majority.
func (n *Node) Obey(load func() (*config.Config, error), level *slog.LevelVar) {
	signals := make(chan os.Signal, 16)
	ossignal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT,
		syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGPIPE)
	go func() {
		for told := 0; ; {
			told = n.obey(<-signals, told, load, level)
		}
	}()
}

// obey does what one signal says. told is how far it has gone: 1 after Drain, 2 after StopNow.
func (n *Node) obey(s os.Signal, told int, load func() (*config.Config, error), level *slog.LevelVar) int {
	switch s {
	case syscall.SIGPIPE:
	case syscall.SIGHUP:
		go n.again(load, level)
	case syscall.SIGQUIT, syscall.SIGINT, syscall.SIGTERM:
		if s == syscall.SIGQUIT {
			n.log.Warn("what every goroutine does", "stacks", string(stacks()))
		}
		switch {
		case told == 2:
			n.log.Warn("this process ends at once", "signal", s.String())
			os.Exit(exitForced)
		case s == syscall.SIGTERM && told == 0:
			n.Drain()
			return 1
		}
		n.StopNow()
		return 2
	default:
		n.log.Info("a signal that means nothing was ignored", "signal", s.String())
	}
	return told
}

// stacks is what every goroutine does.
func stacks() []byte {
	for size := 1 << 16; ; size *= 4 {
		b := make([]byte, size)
		if n := runtime.Stack(b, true); n < size || size >= stacksMax {
			return b[:n]
		}
	}
}
