package stopping

import (
	"log/slog"
	"os"
	ossignal "os/signal"
	"runtime"
	"syscall"
)

// exitForced is how the process ends that a further signal ends at once.
const exitForced = 130

// stacksMax bounds what SIGQUIT writes into the log.
const stacksMax = 16 << 20

// Obey does what the process's signals say, from now on; again reads the configuration:
//
//	SIGTERM                 stop as Drain does; again: as StopNow; once more: exit at once, PostgreSQL stops by itself
//	SIGINT                  stop as StopNow; again: exit at once
//	SIGQUIT                 write into the log what every goroutine does, and stop as SIGINT
//	SIGHUP                  read the configuration again
//	SIGUSR1, SIGUSR2        nothing
//	SIGPIPE                 nothing: who has read the log is gone, and the node goes on without it
//
// None of them loses anything that a client was told: what is committed is on disk at a majority.
func (s *Stops) Obey(log *slog.Logger, again func()) {
	signals := make(chan os.Signal, 16)
	ossignal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT,
		syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGPIPE)
	go func() {
		for told := 0; ; {
			told = s.obey(<-signals, told, log, again)
		}
	}()
}

// obey does what one signal says. told is how far it has gone: 1 after Drain, 2 after StopNow.
func (s *Stops) obey(signal os.Signal, told int, log *slog.Logger, again func()) int {
	switch signal {
	case syscall.SIGPIPE:
	case syscall.SIGHUP:
		go again()
	case syscall.SIGQUIT, syscall.SIGINT, syscall.SIGTERM:
		if signal == syscall.SIGQUIT {
			log.Warn("what every goroutine does", "stacks", string(stacks()))
		}
		switch {
		case told == 2:
			log.Warn("this process ends at once", "signal", signal.String())
			os.Exit(exitForced)
		case signal == syscall.SIGTERM && told == 0:
			s.Drain()
			return 1
		}
		s.StopNow()
		return 2
	default:
		log.Info("a signal that means nothing was ignored", "signal", signal.String())
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
