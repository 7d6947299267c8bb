package instance

import (
	"cmp"
	"context"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/tuttidb/tutti/internal/database/embedded"
)

// examineTimeout bounds the question whether the server would start with its settings.
const examineTimeout = 20 * time.Second

// noSetup are signs that it is not the settings because of which a server does not start.
var noSetup = []string{
	"No space left", "Cannot allocate memory", "Resource temporarily unavailable", "lock file", sharedMemoryInUse,
}

// explain finds out why a server did not start, and makes a SetupError of that if it is what was configured: a
// setting that there is not, a value that it cannot have, a library that is missing. The server's own programs say
// so, without anything being started.
func (i *Instance) explain(ctx context.Context, a *account, failed error) error {
	if ctx.Err() != nil {
		return failed
	}
	// The first one reads the settings only; the second one, whose value depends on all others, loads libraries as
	// well.
	for _, question := range []string{"data_directory", "shared_memory_size"} {
		if why := i.examine(ctx, a, question); why != "" {
			return embedded.Setupf("PostgreSQL cannot run with these settings ([postgres.settings], or ALTER "+
				"SYSTEM): %s: %w",
				why, failed)
		}
	}
	return failed
}

// examine asks for the value of a setting, and gives what the server says against its settings; empty if it has
// nothing to say.
func (i *Instance) examine(ctx context.Context, a *account, setting string) string {
	ctx, cancel := context.WithTimeout(ctx, examineTimeout)
	defer cancel()
	args := append(i.arguments(), "-c", "lc_messages=C", "-C", setting)
	cmd := exec.CommandContext(ctx, i.o.Build.Program("postgres"), args...)
	cmd.Dir = i.o.DataDir
	cmd.Env = i.environment()
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: a.credential()}
	out, err := cmd.CombinedOutput()
	if err == nil || ctx.Err() != nil {
		return ""
	}
	said := strings.TrimSpace(string(out))
	for _, sign := range noSetup {
		if strings.Contains(said, sign) {
			return ""
		}
	}
	var lines []string
	for line := range strings.Lines(said) {
		line = strings.TrimSpace(line)
		for _, level := range []string{"LOG:", "FATAL:", "ERROR:", "DETAIL:", "HINT:"} {
			if _, text, ok := strings.Cut(line, level); ok {
				lines = append(lines, strings.TrimSpace(text))
			}
		}
	}
	if len(lines) == 0 {
		return cmp.Or(strings.TrimPrefix(said, "postgres: "), err.Error())
	}
	return strings.Join(lines, "; ")
}
