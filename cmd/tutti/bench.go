package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/tuttidb/tutti/internal/bench"
	"github.com/tuttidb/tutti/internal/bench/sites"
)

func benchCommand() *cobra.Command {
	c := &cobra.Command{Use: "bench", Short: "Measure"}
	c.AddCommand(benchCompareCommand(), benchSitesCommand())
	return c
}

func benchCompareCommand() *cobra.Command {
	o := bench.Defaults()
	c := &cobra.Command{
		Use: "compare", Short: "Compare three nodes with one PostgreSQL and PgBouncer on this machine: throughput, " +
			"latency, CPU, fsyncs", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return bench.Compare(c.Context(), o, os.Stdout) },
	}
	f := c.Flags()
	f.IntVar(&o.Rounds, "rounds", o.Rounds, "how often every server gets every load")
	f.IntVar(&o.Seconds, "seconds", o.Seconds, "length of one run")
	f.IntSliceVar(&o.Clients, "clients", o.Clients, "numbers of connections, spread over the nodes")
	f.StringSliceVar(&o.Loads, "loads", nil, "any of N, wo, S, tpcb, update_non_index, write_only, read_write, "+
		"read_only (default all)")
	f.StringSliceVar(&o.Servers, "only", nil, "any of plain, plain-async, pgbouncer, tutti (default all)")
	f.StringSliceVar(&o.Modes, "modes", o.Modes, "how statements are sent: any of prepared, simple, extended; in turns")
	f.IntVar(&o.Scale, "scale", o.Scale, "of pgbench: 100,000 accounts each")
	f.IntVar(&o.Tables, "tables", o.Tables, "of sysbench")
	f.IntVar(&o.TableSize, "table-size", o.TableSize, "rows in each table of sysbench")
	f.StringVar(&o.RandType, "rand-type", o.RandType, "how sysbench chooses rows: uniform, gaussian, pareto, special")
	f.StringVar(&o.JSON, "json", "", "write everything into this file")
	f.StringVar(&o.Profiles, "profiles", "", "write profiles of the nodes' processor time into this directory, for "+
		"go tool pprof")
	f.StringVar(&o.Dir, "dir", "", "where to put the servers' files for the time of the comparison (default /var/tmp)")
	f.IntVar(&o.BasePort, "base-port", o.BasePort,
		"nodes listen on it and the next two, plain PostgreSQL and PgBouncer on the two after that")
	f.StringVar(&o.BinDir, "pg-bin-dir", "", "directory of PostgreSQL's binaries (default: this machine's, else a "+
		"download)")
	f.BoolVar(&o.Keep, "keep", false, "keep the servers' files")
	f.BoolVar(&o.Quick, "quick", false, "one round of 2 s with 8 clients on little data, -N and -S: to see that "+
		"it works")
	return c
}

func benchSitesCommand() *cobra.Command {
	o := sites.Defaults()
	c := &cobra.Command{
		Use:   "sites",
		Short: "Measure seven nodes at seven sites: what an update waits for, who leads, a site that is lost",
		Args:  cobra.NoArgs,
		RunE:  func(c *cobra.Command, _ []string) error { return sites.Run(c.Context(), o, os.Stdout) },
	}
	f := c.Flags()
	f.IntVar(&o.Diameter, "diameter", o.Diameter, "from end to end, each way, in milliseconds")
	f.IntVar(&o.Updates, "updates", o.Updates, "made at each site for each median")
	f.StringVar(&o.JSON, "json", "", "write everything into this file")
	f.StringVar(&o.Dir, "dir", "", "where to put the nodes' files meanwhile (default /var/tmp)")
	f.IntVar(&o.BasePort, "base-port", o.BasePort, "nodes listen on it and the next six")
	f.StringVar(&o.BinDir, "pg-bin-dir", "", "directory of PostgreSQL's binaries (default: this machine's, else a "+
		"download)")
	return c
}
