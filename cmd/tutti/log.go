package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/tuttidb/tutti/internal/forced"
)

func logCommand() *cobra.Command {
	var o forced.ExportOptions
	export := &cobra.Command{
		Use:   "export --config FILE [--behind REPORT]",
		Short: "Print what the logs of a node that does not run commit",
		Long: "Prints the transactions that the logs of a node commit, one line of JSON each: their txid, whether " +
			"the node\nknew that they were decided, and their rows. With --behind, a file with what tutti recover " +
			"-o json printed at\nthe member that went on alone, only those that it has not; else all behind the " +
			"databases' checkpoints.\nThe node must not run; its database is only read.\n\n" +
			"Run it as the user of the node.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return forced.Export(c.Context(), o, os.Stdout) },
	}
	f := export.Flags()
	f.StringVar(&o.Config, "config", "", "configuration file of the node (TOML)")
	f.StringVar(&o.Behind, "behind", "", "file with what tutti recover -o json printed at the member that went on")
	if err := export.MarkFlagRequired("config"); err != nil {
		panic(err)
	}
	c := &cobra.Command{Use: "log", Short: "Look into the log of a node that does not run"}
	c.AddCommand(export)
	return c
}
