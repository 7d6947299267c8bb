package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/tuttidb/tutti/internal/admin"
)

func upgradeCommand() *cobra.Command {
	c := &cobra.Command{Use: "upgrade", Short: "Show what the members run and understand, and finish an upgrade",
		Long: "Nodes of one release and the one before work together. What only the newer one understands is refused " +
			"until\nan upgrade is finished; then nodes of the older one are.\n\nExit codes:\n  0  it is finished\n" +
			"  1  it is not; finish: a node refuses it, and says which members lack the release\n" +
			"  3  the cluster cannot be asked: a wrong flag, configuration or password"}
	for _, x := range []struct {
		use, short string
		finish     bool
	}{
		{"status", "Show each member's release and level, and the cluster's level", false},
		{"finish", "Raise the cluster's level to what its members understand, for ever", true},
	} {
		var t admin.Target
		sub := &cobra.Command{Use: x.use, Short: x.short,
			Args: func(c *cobra.Command, args []string) error { return admin.Usage(cobra.NoArgs(c, args)) },
			RunE: func(c *cobra.Command, _ []string) error {
				return admin.Upgrade(c.Context(), t, x.finish, os.Stdout)
			},
		}
		target(sub, &t)
		sub.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return admin.Usage(err) })
		c.AddCommand(sub)
	}
	return c
}
