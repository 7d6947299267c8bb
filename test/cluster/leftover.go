package cluster

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// leftover lists the processes that work in dir or name it in their arguments: nodes by
// their configuration file, PostgreSQL's by their data directory. Without /proc it is empty.
func leftover(dir string) map[int]string {
	found := map[int]string{}
	entries, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return found
	}
	for _, p := range entries {
		pid, err := strconv.Atoi(filepath.Base(p))
		if err != nil || pid == os.Getpid() {
			continue
		}
		// A process that ends meanwhile is no leftover.
		cwd, _ := os.Readlink(filepath.Join(p, "cwd"))
		args, _ := os.ReadFile(filepath.Join(p, "cmdline"))
		line := strings.TrimSpace(strings.ReplaceAll(string(args), "\x00", " "))
		if strings.HasPrefix(cwd, dir+"/") || line != "" && strings.Contains(line, dir+"/") {
			found[pid] = line
		}
	}
	return found
}
