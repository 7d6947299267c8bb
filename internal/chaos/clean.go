package chaos

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/tuttidb/tutti/internal/process"
)

// Clean ends what a run that was killed left in dir: processes, by their id, and mounted file
// systems. Files stay.
func Clean(dir string, out io.Writer) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	configs, err := filepath.Glob(filepath.Join(dir, "node*.toml"))
	if err != nil {
		return err
	}
	var errs []error
	for _, c := range configs {
		for deadline := time.Now().Add(stopTimeout); ; time.Sleep(pollInterval) {
			left := process.OfNode(c, c[:len(c)-len(".toml")])
			for pid, line := range left {
				fmt.Fprintf(out, "ending %d: %s\n", pid, line)
				_ = syscall.Kill(pid, syscall.SIGKILL) // it may just have ended
			}
			if len(left) == 0 {
				break
			}
			if time.Now().After(deadline) {
				errs = append(errs, fmt.Errorf("processes of %s do not end", c))
				break
			}
		}
	}
	return errors.Join(append(errs, unmountBelow(dir))...)
}

// JudgeFile judges a history that was kept, and prints what is wrong with it.
func JudgeFile(path string, out io.Writer) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	h, err := ReadHistory(f)
	if err != nil {
		return err
	}
	problems := Judge(h)
	for _, p := range problems {
		fmt.Fprintln(out, p)
	}
	fmt.Fprintf(out, "%d transactions, %d nodes: %d problems\n", len(h.Txs), len(h.States), len(problems))
	if len(problems) > 0 {
		return ErrFailed
	}
	return nil
}
