package main

import (
	"errors"
	"os"

	"github.com/spf13/cobra"

	"github.com/tuttidb/tutti/internal/chaos"
)

func chaosCommand() *cobra.Command {
	var o chaos.Options
	var judge, clean string
	c := &cobra.Command{
		Use: "chaos", Short: "Test a real cluster under load and faults, and judge what its clients saw",
		Args: cobra.NoArgs,
		Long: "Runs a cluster on this machine with clients at all nodes, makes a random fault every few seconds,\n" +
			"heals, compares all copies and judges the histories. Exit 1 if anything was wrong,\n2 if only survivors " +
			"stood still for too long.\n\nFaults:\n" + chaos.KindsText(),
		RunE: func(c *cobra.Command, _ []string) error {
			switch {
			case judge != "":
				return chaos.JudgeFile(judge, os.Stdout)
			case clean != "":
				return chaos.Clean(clean, os.Stdout)
			}
			err := chaos.Run(c.Context(), o, os.Stdout)
			if errors.Is(err, chaos.ErrSlow) {
				return codeError{2, err}
			}
			return err
		},
	}
	f := c.Flags()
	f.IntVar(&o.Nodes, "nodes", 3, "3 or 5")
	f.IntVar(&o.Seconds, "seconds", 60, "how long faults are made")
	f.Uint64Var(&o.Seed, "seed", 0, "draws the schedule of faults (default: a new one, printed)")
	f.StringSliceVar(&o.Faults, "faults", nil, "kinds of faults (default: all that are possible here)")
	f.StringVar(&o.Dir, "dir", "", "directory for everything; PostgreSQL's user must reach it (default: a new one "+
		"below the temporary directory)")
	f.IntVar(&o.BasePort, "base-port", 0, "first of two ports per node, and of two more where nodes join (default: "+
		"free ones)")
	f.IntVar(&o.Clients, "clients", 0, "clients per node, at least 11 (default 11)")
	f.BoolVar(&o.Large, "large", false, "a client of each node changes tens of thousands of rows at a time, which "+
		"alone makes others wait")
	f.BoolVar(&o.Netns, "netns", false, "run each node in a network namespace of its own (root on Linux)")
	f.BoolVar(&o.Keep, "keep", false, "keep the files of a good run, too")
	f.StringVar(&o.BinDir, "pg-bin-dir", "", "directory of PostgreSQL's binaries (default: this machine's, else a "+
		"download)")
	f.DurationVar(&o.GapLeader, "gap-leader", 0,
		"longest time without a commit for survivors when the leader is hit (default 2s)")
	f.DurationVar(&o.GapOther, "gap-other", 0, "and otherwise (default 500ms)")
	f.StringVar(&judge, "judge", "", "judge a history file of an earlier run, and do nothing else")
	f.StringVar(&clean, "clean", "", "end processes and unmount file systems that a killed run left in this "+
		"directory, and do nothing else")
	return c
}
