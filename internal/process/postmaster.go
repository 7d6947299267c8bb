package process

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Postmaster is the process id of the PostgreSQL server on a data directory, as its lock file
// says; zero if there is none.
func Postmaster(dataDir string) int {
	b, err := os.ReadFile(filepath.Join(dataDir, "postmaster.pid"))
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(b), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(first))
	if err != nil {
		return 0
	}
	return pid
}
