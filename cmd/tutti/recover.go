package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/tuttidb/tutti/internal/forced"
)

func recoverCommand() *cobra.Command {
	var o forced.Options
	c := &cobra.Command{
		Use: "recover --config FILE [--force]", Short: "Have a member go on alone, after a majority is lost for good",
		Long: "Says how much the logs of a node that does not run hold: compare what it says at all that are left. " +
			"With --force\nthe node goes on alone when it is started, with all that its logs hold; the others are " +
			"removed from the cluster.\nThat is refused while one of them can be reached. Commits that only others " +
			"have are lost.\n\nRun it as the user of the node.",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return forced.Run(o, os.Stdout) },
	}
	f := c.Flags()
	f.StringVar(&o.Config, "config", "", "configuration file of the node (TOML)")
	f.BoolVar(&o.Force, "force", false, "go on alone")
	f.StringVarP(&o.Format, "output", "o", "table", "table or json")
	if err := c.MarkFlagRequired("config"); err != nil {
		panic(err)
	}
	return c
}
