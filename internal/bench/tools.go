package bench

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/tuttidb/tutti/internal/database/embedded"
)

// tools are the programs that make the load, by path; empty if there is none.
type tools struct{ pgbench, sysbench, pgbouncer string }

// findTools looks beside the server's binaries first, so that pgbench is of their version.
func findTools(build embedded.Build) (t tools) {
	if p := build.Program("pgbench"); executable(p) {
		t.pgbench = p
	} else {
		t.pgbench = lookPath("pgbench")
	}
	t.sysbench, t.pgbouncer = lookPath("sysbench"), lookPath("pgbouncer")
	return t
}

func executable(path string) bool {
	fi, err := os.Stat(path)
	return err == nil && fi.Mode().IsRegular() && fi.Mode()&0o111 != 0
}

// lookPath also looks where servers are installed, which is not in everybody's PATH.
func lookPath(name string) string {
	if p, err := exec.LookPath(name); err == nil {
		return p
	}
	for _, dir := range []string{"/usr/sbin", "/usr/local/sbin"} {
		if p := filepath.Join(dir, name); executable(p) {
			return p
		}
	}
	return ""
}

// available lists the servers that can be compared, and says what is missing.
func (o *Options) available(t tools) (names, missing []string) {
	for _, name := range serverNames {
		if len(o.Servers) > 0 && !slices.Contains(o.Servers, name) {
			continue
		}
		if name == bouncer && t.pgbouncer == "" {
			missing = append(missing, "PgBouncer is not installed: there is nothing to compare with it")
			continue
		}
		names = append(names, name)
	}
	return names, missing
}

// withTools drops loads whose generator is missing, and says so.
func withTools(ls []load, t tools) (out []load, missing []string) {
	programs := map[string]string{"pgbench": t.pgbench, "sysbench": t.sysbench}
	without := map[string][]string{}
	for _, l := range ls {
		if programs[l.tool] != "" {
			out = append(out, l)
		} else {
			without[l.tool] = append(without[l.tool], l.name)
		}
	}
	for _, name := range []string{"pgbench", "sysbench"} {
		if len(without[name]) > 0 {
			missing = append(missing, fmt.Sprintf("%s is not installed: no %s", name,
				strings.Join(without[name], ", ")))
		}
	}
	return out, missing
}

// versions names everything that takes part.
func versions(ctx context.Context, build embedded.Build, t tools) map[string]string {
	v := map[string]string{"postgresql": build.Version, "go": runtime.Version(), "tutti": "binary " + ownHash()}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision":
				v["tutti"] = s.Value
			case s.Key == "vcs.modified" && s.Value == "true":
				v["tutti"] += ", changed"
			}
		}
	}
	for name, program := range map[string]string{"pgbench": t.pgbench, "sysbench": t.sysbench,
		"pgbouncer": t.pgbouncer} {
		if program == "" {
			continue
		}
		if out, _, err := run(ctx, program, "--version"); err == nil {
			v[name], _, _ = strings.Cut(strings.TrimSpace(out), "\n")
		}
	}
	return v
}

// ownHash tells builds apart that carry no revision.
func ownHash() string {
	exe, err := os.Executable()
	if err != nil {
		return "unknown"
	}
	b, err := os.ReadFile(exe)
	if err != nil {
		return "unknown"
	}
	return fmt.Sprintf("%x", sha256.Sum256(b))[:16]
}

// machine describes where the comparison runs; what cannot be told is left out.
func machine() Machine {
	m := Machine{Cores: runtime.NumCPU(), System: runtime.GOOS + "/" + runtime.GOARCH}
	m.Processor = field(filepath.Join(procDir, "cpuinfo"), "model name")
	m.Memory = field(filepath.Join(procDir, "meminfo"), "MemTotal")
	m.Load = load1()
	return m
}

// field finds "name : value" in a file of /proc.
func field(path, name string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(b)) {
		if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == name {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// load1 is what the machine did in the last minute, ours included; 0 if it does not tell.
func load1() (load float64) {
	b, err := os.ReadFile(filepath.Join(procDir, "loadavg"))
	if err != nil {
		return 0
	}
	if _, err := fmt.Sscan(string(b), &load); err != nil {
		return 0
	}
	return load
}
