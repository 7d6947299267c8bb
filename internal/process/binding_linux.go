package process

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Run keeps this process together with the server whose postmaster's process id, or zero, postmaster returns. Groups
// begin with different processors, and measure at different moments. When ctx ends, all may use what this process could
// before. It does nothing where there is one processor only, or where the kernel does not tell what it takes; that is
// logged.
func (b *Binding) Run(ctx context.Context, postmaster func() int, log *slog.Logger) {
	var before unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		log.Warn("this node is not kept on one processor", "error", err)
		return
	}
	for i := range len(before) * 64 {
		if before.IsSet(i) {
			b.processors = append(b.processors, i)
		}
	}
	if len(b.processors) < 2 {
		return
	}
	b.home = free
	defer func() { _ = confine(group(postmaster()), &before) }()
	select {
	case <-ctx.Done():
		return
	case <-time.After(time.Duration(b.Number%3) * bindEvery / 3):
	}
	every := bindEvery
	last, err := survey(b.processors, group(postmaster()))
	for err == nil {
		if !Sleep(ctx, ToBeat(every)) {
			return
		}
		pids := group(postmaster())
		now, failed := survey(b.processors, pids)
		if failed != nil {
			err = failed
			break
		}
		idle, use := now.since(last)
		last = now
		every = bindEvery
		if use < bindIdle {
			every = bindSeldom
		}
		was := b.home
		b.home = b.next(idle, use)
		if b.home == free && was == free {
			continue
		}
		mask := before
		if b.home != free {
			mask.Zero()
			mask.Set(b.processors[b.home])
		}
		err = confine(pids, &mask) // again each time: who was born meanwhile may not have it
	}
	log.Warn("this node is no longer kept on one processor", "error", err)
}

// group lists the threads of this process, the postmaster and its children.
func group(postmaster int) (tasks []int) {
	tasks = threads()
	if postmaster <= 0 {
		return tasks
	}
	tasks = append(tasks, postmaster)
	children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", postmaster)) // it has one thread
	for _, c := range strings.Fields(string(children)) {
		if pid, err := strconv.Atoi(c); err == nil {
			tasks = append(tasks, pid)
		}
	}
	return tasks
}

// confine gives tasks these processors. One that has ended is no error.
func confine(tasks []int, mask *unix.CPUSet) error {
	for _, t := range tasks {
		if err := unix.SchedSetaffinity(t, mask); err != nil && err != unix.ESRCH {
			return fmt.Errorf("binding process %d to a processor: %w", t, err)
		}
	}
	return nil
}

// surveyed is what was measured at a moment.
type surveyed struct {
	at          time.Time
	idle, whole []float64 // ticks of each processor
	ran         map[int]time.Duration
}

func survey(processors, tasks []int) (s surveyed, err error) {
	s = surveyed{at: time.Now(), idle: make([]float64, len(processors)), whole: make([]float64, len(processors)),
		ran: make(map[int]time.Duration, len(tasks))}
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return s, err
	}
	found := 0
	for line := range strings.Lines(string(b)) {
		fields := strings.Fields(line)
		for i, p := range processors {
			if len(fields) < 9 || fields[0] != "cpu"+strconv.Itoa(p) {
				continue
			}
			found++
			for k, f := range fields[1:9] { // user, nice, system, idle, iowait, irq, softirq, steal
				n, _ := strconv.ParseFloat(f, 64)
				s.whole[i] += n
				if k == 3 || k == 4 {
					s.idle[i] += n
				}
			}
		}
	}
	if found != len(processors) {
		return s, fmt.Errorf("/proc/stat tells of %d of %d processors", found, len(processors))
	}
	for _, t := range tasks {
		if ran, _, ok := schedstat(t); ok {
			s.ran[t] = ran
		}
	}
	return s, nil
}

// since returns which part of each processor was idle since last, and how many processors the tasks used. What ran only
// in between, or began, is not counted.
func (s surveyed) since(last surveyed) (idle []float64, use float64) {
	idle = make([]float64, len(s.idle))
	for i := range idle {
		if passed := s.whole[i] - last.whole[i]; passed > 0 {
			idle[i] = min(max((s.idle[i]-last.idle[i])/passed, 0), 1)
		}
	}
	for t, ran := range s.ran {
		if before, ok := last.ran[t]; ok {
			use += float64(ran - before)
		}
	}
	return idle, use / float64(s.at.Sub(last.at))
}
