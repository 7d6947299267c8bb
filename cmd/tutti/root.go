package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tuttidb/tutti/internal/version"
)

// Groups of commands, as help shows them.
const (
	groupOperate = "operate"
	groupTry     = "try"
	groupDevelop = "develop"
)

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use: "tutti", Short: "Several PostgreSQL servers, one database",
		SilenceUsage: true, SilenceErrors: true, Version: version.Long(),
	}
	root.SetVersionTemplate("tutti {{.Version}}\n")
	root.AddGroup(
		&cobra.Group{ID: groupTry, Title: "To try it:"},
		&cobra.Group{ID: groupOperate, Title: "To operate a cluster:"},
		&cobra.Group{ID: groupDevelop, Title: "To develop Tutti itself:"},
	)
	for _, g := range []struct {
		id       string
		commands []*cobra.Command
	}{
		{groupTry, []*cobra.Command{demoCommand()}},
		{groupOperate, []*cobra.Command{initCommand(), joinCommand(), witnessCommand(), nodeCommand(), memberCommand(),
			statusCommand(), upgradeCommand(), checkCommand(), whatIfCommand(), adoptCommand(), recoverCommand(),
			logCommand(), versionCommand()}},
		{groupDevelop, []*cobra.Command{simCommand(), benchCommand(), chaosCommand()}},
	} {
		for _, c := range g.commands {
			c.GroupID = g.id
			root.AddCommand(c)
		}
	}
	return root
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Say which Tutti this is", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(c.OutOrStdout(), "tutti", version.Long())
			return err
		},
	}
}
