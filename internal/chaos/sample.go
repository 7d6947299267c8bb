package chaos

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// sample is what one node's process holds at one moment.
type sample struct {
	at         time.Time
	pid        int
	rss        int64 // bytes
	files      int   // open descriptors
	goroutines int   // zero if the node does not tell
	backends   int   // processes of its PostgreSQL below the postmaster
}

const sampleEvery = 5 * time.Second

// sample looks at one node; ok is false while it does not run.
func (c *cluster) sample(ctx context.Context, k int) (s sample, ok bool) {
	n := c.node(k)
	s.at, s.pid = time.Now(), n.pid()
	if s.pid == 0 {
		return s, false
	}
	s.rss = residentBytes(s.pid)
	// A process that ends meanwhile has nothing.
	files, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.pid))
	s.files = len(files)
	s.backends = children(n.postgres())
	rows, err := ask(ctx, c.url(k), c.net.dial, "SHOW tutti.counters", time.Second)
	if err != nil {
		return s, true
	}
	for _, row := range rows {
		if row[0] == "goroutines" {
			s.goroutines, _ = strconv.Atoi(row[1]) // zero means unknown
		}
	}
	return s, true
}

// residentBytes is VmRSS; zero if the process is gone.
func residentBytes(pid int) int64 {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "VmRSS:" {
			kib, _ := strconv.ParseInt(f[1], 10, 64) // the kernel writes numbers
			return kib << 10
		}
	}
	return 0
}

// children counts the processes below one.
func children(parent int) (n int) {
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, f := range files {
		b, _ := os.ReadFile(f) // empty if it has ended
		if i := bytes.LastIndexByte(b, ')'); i >= 0 {
			if fields := strings.Fields(string(b[i+1:])); len(fields) > 1 && fields[1] == strconv.Itoa(parent) {
				n++
			}
		}
	}
	return n
}

// watch samples all nodes until ctx ends.
func (c *cluster) watch(ctx context.Context) map[int][]sample {
	out := map[int][]sample{}
	for sleep(ctx, sampleEvery) {
		for _, n := range c.members() {
			if s, ok := c.sample(ctx, n.k); ok {
				out[n.k] = append(out[n.k], s)
			}
		}
	}
	return out
}

// idle samples all nodes while nothing is asked of them.
func (c *cluster) idle(ctx context.Context) map[int]sample {
	out := map[int]sample{}
	for _, n := range c.members() {
		if s, ok := c.sample(ctx, n.k); ok {
			out[n.k] = s
		}
	}
	return out
}

// Allowances of an idle node at the end over the same node before any load. Descriptors grow
// by the log's segments, which are not leaks: those are counted apart.
const (
	filesMore      = 16
	goroutinesMore = 16
	backendsMore   = 4 // two of an audit
)

// baseline is a node before any load; for one that joined later, the most of those that there were.
func baseline(before map[int]sample, k int) (s sample) {
	if s, ok := before[k]; ok {
		return s
	}
	for _, b := range before {
		s.files, s.goroutines, s.backends = max(s.files, b.files), max(s.goroutines, b.goroutines),
			max(s.backends, b.backends)
	}
	return s
}

// leaks compares idle nodes before and after.
func (c *cluster) leaks(before, after map[int]sample) (problems []string) {
	for _, n := range c.members() {
		b, a := baseline(before, n.k), after[n.k]
		segments, _ := filepath.Glob(filepath.Join(n.config.DataDir, "log", "*.seg")) // the pattern is ours
		for _, x := range []struct {
			what         string
			b, a, allows int
		}{
			{"open files", b.files, a.files, filesMore + len(segments)},
			{"goroutines", b.goroutines, a.goroutines, goroutinesMore},
			{"PostgreSQL processes", b.backends, a.backends, backendsMore},
		} {
			if x.a > x.b+x.allows {
				problems = append(problems, fmt.Sprintf("%s holds %d %s, %d before any load", n.name(), x.a, x.what,
					x.b))
			}
		}
		if a.rss > c.o.RSSMax {
			problems = append(problems, fmt.Sprintf("%s holds %s of memory, the limit is %s", n.name(), mib(a.rss),
				mib(c.o.RSSMax)))
		}
	}
	return problems
}

func mib(bytes int64) string { return fmt.Sprintf("%d MiB", bytes>>20) }

// trend is how fast memory grew in the second half of a node's longest life, in MiB a minute.
func trend(samples []sample) (perMinute float64, life time.Duration) {
	for i := 0; i < len(samples); {
		end := i + 1
		for end < len(samples) && samples[end].pid == samples[i].pid {
			end++
		}
		if d := samples[end-1].at.Sub(samples[i].at); d > life {
			life = d
			perMinute = slope(samples[i+(end-i)/2 : end])
		}
		i = end
	}
	return perMinute, life
}

// slope fits a line through the memory of samples.
func slope(s []sample) float64 {
	var n, sx, sy, sxx, sxy float64
	for _, p := range s {
		x, y := p.at.Sub(s[0].at).Minutes(), float64(p.rss)/(1<<20)
		n, sx, sy, sxx, sxy = n+1, sx+x, sy+y, sxx+x*x, sxy+x*y
	}
	if d := n*sxx - sx*sx; d > 0 {
		return (n*sxy - sx*sy) / d
	}
	return 0
}

// most is the largest value over all samples.
func most(samples []sample, of func(sample) int64) int64 {
	if len(samples) == 0 {
		return 0
	}
	return of(slices.MaxFunc(samples, func(a, b sample) int { return int(of(a) - of(b)) }))
}
