package bench

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// announce says what is going to be done and how long it takes.
func (c *comparison) announce() {
	runs := 0
	var names []string
	for i := range c.loads {
		l := &c.loads[i]
		runs += len(l.servers) * len(l.clientsOf(&c.o)) * c.o.Rounds
		names = append(names, l.label())
	}
	for _, m := range c.report.Missing {
		fmt.Fprintln(c.out, m)
	}
	about := time.Duration(runs) * (time.Duration(c.o.Seconds)*time.Second + 700*time.Millisecond)
	fmt.Fprintf(c.out, "%d runs of %d s (%s): about %s and the time to fill the tables\n", runs, c.o.Seconds, strings.Join(names, ", "), about.Round(time.Second))
}

// progress prints one run as it ends.
func (c *comparison) progress(r *Run) {
	if r.Error != "" {
		first, _, _ := strings.Cut(r.Error, "\n")
		fmt.Fprintf(c.out, "%-24s %3d clients  round %d  %-12s failed: %s\n", r.Load, r.Clients, r.Round, r.Server, first)
		return
	}
	fmt.Fprintf(c.out, "%-24s %3d clients  round %d  %-12s %8.0f tps  %8.2f ms\n", r.Load, r.Clients, r.Round, r.Server, r.TPS, r.MeanMs)
}

// print writes the tables.
func (r *Report) print(out io.Writer) {
	fmt.Fprintf(out, "\n%s, %d cores (load before: %.1f), fsync %.0f µs, PostgreSQL %s, medians of %d rounds of %d s\n\n", r.Started.Format(time.DateOnly),
		r.Machine.Cores, r.Machine.Load, r.Machine.FsyncUs, r.Versions["postgresql"], r.Options.Rounds, r.Options.Seconds)
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "load\tclients\tserver\ttps\tmean ms\tp95 ms\taborts %\tlost %\tCPU µs: database\tapplying\tmiddleware\tclient\tfsyncs\tcatch-up ms\tothers %\t")
	for i := range r.Medians {
		m := &r.Medians[i]
		cpu, others := "\t\t\t", ""
		if m.CPU != nil {
			cpu = fmt.Sprintf("%.0f\t%.0f\t%.0f\t%.0f", m.CPU.Database, m.CPU.Applying, m.CPU.Middleware, m.CPU.Client)
			others = fmt.Sprintf("%.0f", 100*m.OthersShare)
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t%.0f\t%.2f\t%.2f\t%.1f\t%.1f\t%s\t%.2f\t%.0f\t%s\t\n", m.Load, m.Clients, m.Server, m.TPS, m.MeanMs, m.P95Ms,
			100*m.AbortShare, 100*m.LostShare, cpu, m.Fsyncs, m.CatchUpMs, others)
	}
	_ = w.Flush() // the terminal's errors are nobody's
	fmt.Fprintln(out, "\nCPU and fsyncs are per transaction; CPU summed over all servers and processes, fsyncs per member. Lost: at certification.")
	fmt.Fprintln(out, "Others: CPU of the machine used by processes that do not belong to the run.")
	r.printRatios(out)
	r.printRemote(out)
	if n := r.disturbed(); n > 0 {
		fmt.Fprintf(out, "\nIn %d of %d runs other processes used more than %.0f %% of the machine: trust no figure of those, and their ratios little.\n", n, len(r.Runs), 100*othersMax)
	}
	for _, m := range r.Missing {
		fmt.Fprintln(out, m)
	}
}

// othersMax is the share of the machine that other processes may use in an undisturbed run.
// The other servers of the comparison, at rest, need a few hundredths.
const othersMax = 0.1

// disturbed counts the runs that had to share the machine.
func (r *Report) disturbed() (n int) {
	for i := range r.Runs {
		if r.Runs[i].OthersShare > othersMax {
			n++
		}
	}
	return n
}

// between is the extremes with so many digits.
func (s Spread) between(digits int) string {
	return fmt.Sprintf("%.*f–%.*f", digits, s.Min, digits, s.Max)
}

func (r *Report) printRatios(out io.Writer) {
	if len(r.Ratios) == 0 {
		return
	}
	fmt.Fprint(out, "\nRatios of throughput, median and extremes:\n\n")
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "load\tclients\tratio\t\tmedian\trounds\t")
	for _, x := range r.Ratios {
		fmt.Fprintf(w, "%s\t%d\t%s ÷\t%s\t%.2f\t%s\t\n", x.Load, x.Clients, x.Of, x.To, x.Median, x.Spread.between(2))
	}
	_ = w.Flush()
}

func (r *Report) printRemote(out io.Writer) {
	if r.Remote == nil {
		return
	}
	x := r.Remote
	fmt.Fprintf(out, "\nOne remote transaction (-N, %d clients at one node): CPU to apply it %.1f µs (%s), in the node's process %.1f µs (%s).\n",
		x.Clients, x.Apply.Median, x.Apply.between(1), x.Node.Median, x.Node.between(1))
	if x.Plain != nil {
		fmt.Fprintf(out, "To execute it at plain: %.1f µs (%s); wo = %.2f (%s).\n", x.Plain.Median, x.Plain.between(1), x.ToPlain.Median, x.ToPlain.between(2))
	}
	fmt.Fprintf(out, "To execute it at its origin: %.1f µs (%s); %.2f of that (%s).\n", x.Origin.Median, x.Origin.between(1), x.ToOrigin.Median, x.ToOrigin.between(2))
}
