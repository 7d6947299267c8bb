package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/tuttidb/tutti/internal/adopt"
)

func adoptCommand() *cobra.Command {
	var o adopt.Options
	c := &cobra.Command{
		Use: "adopt --config FILE [DIRECTORY]", Short: "Have a cluster begin with a PostgreSQL that is there already",
		Long: "Makes a data directory of a stopped PostgreSQL the one of a node that has not begun yet: a copy of " +
			"it, or itself.\nWithout DIRECTORY, that in the node's data_dir. When all nodes are started, those that " +
			"have nothing copy it.\nBefore that it says what would be lost, and then changes nothing, and what will " +
			"be different.\n\nExit codes:\n" +
			"  0  it was adopted, or can be (--dry-run)\n  1  something would be lost; nothing was changed\n" +
			"  3  the directory cannot be looked at, or adopted",
		Args: func(c *cobra.Command, args []string) error { return adopt.Usage(cobra.MaximumNArgs(1)(c, args)) },
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				o.From = args[0]
			}
			return adopt.Run(c.Context(), o, os.Stdout)
		},
	}
	f := c.Flags()
	f.StringVar(&o.Config, "config", "", "configuration file of the node (TOML)")
	f.BoolVar(&o.Move, "move", false, "move the directory instead of copying it: the server of before has none then")
	f.BoolVar(&o.DryRun, "dry-run", false, "say what would be lost, or be different, and change nothing")
	f.StringVar(&o.Server, "server", "", "with --dry-run: connection string of a server that runs, to look at before "+
		"it is stopped")
	f.StringVar(&o.Conf, "postgresql-conf", "", "the server's postgresql.conf, if it is not in the directory")
	f.StringVarP(&o.Format, "output", "o", "table", "table or json")
	c.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return adopt.Usage(err) })
	if err := c.MarkFlagRequired("config"); err != nil {
		panic(err)
	}
	return c
}
