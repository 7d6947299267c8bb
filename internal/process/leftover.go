package process

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Leftover lists the processes that work in dir or name it in their arguments: nodes by
// their configuration file, PostgreSQL's by their data directory. Without /proc it is empty.
func Leftover(dir string) map[int]string {
	found := map[int]string{}
	each(func(pid int, cwd string, args []string) {
		line := strings.Join(args, " ")
		if strings.HasPrefix(cwd, dir+"/") || strings.Contains(line, dir+"/") {
			found[pid] = line
		}
	})
	return found
}

// OfNode lists the processes of one node: "tutti node" with this configuration file, and
// PostgreSQL's that work below this data directory. It names nobody else, so what it lists
// may be ended. Without /proc it is empty.
func OfNode(configFile, dataDir string) map[int]string {
	found := map[int]string{}
	each(func(pid int, cwd string, args []string) {
		node := len(args) > 2 && args[1] == "node" && slices.Contains(args, configFile)
		server := len(args) > 0 && strings.Contains(args[0], "postgres") && strings.HasPrefix(cwd, dataDir+"/")
		if node || server {
			found[pid] = strings.Join(args, " ")
		}
	})
	return found
}

// each calls f with every process but this one.
func each(f func(pid int, cwd string, args []string)) {
	entries, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return
	}
	for _, p := range entries {
		pid, err := strconv.Atoi(filepath.Base(p))
		if err != nil || pid == os.Getpid() {
			continue
		}
		// A process that ends meanwhile has neither.
		cwd, _ := os.Readlink(filepath.Join(p, "cwd"))
		args, _ := os.ReadFile(filepath.Join(p, "cmdline"))
		f(pid, cwd, strings.FieldsFunc(string(args), func(r rune) bool { return r == 0 }))
	}
}
