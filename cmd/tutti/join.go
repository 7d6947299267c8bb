package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/tuttidb/tutti/internal/join"
)

// nodeOptions adds the flags of a new node, and says which must be given.
func nodeOptions(c *cobra.Command, o *join.Options, required ...string) {
	f := c.Flags()
	f.StringVar(&o.Dir, "dir", "", "the node's directory, which is made: configuration, certificate, data")
	f.StringVar(&o.Name, "name", "", "the node's name")
	f.StringVar(&o.MemberListen, "member-listen", "", "host:port for the other nodes, by which they reach it")
	if !o.Witness {
		f.StringVar(&o.Listen, "listen", "", "host:port for clients")
		f.StringVar(&o.BinDir, "pg-bin-dir", "", "directory of PostgreSQL's binaries (default: this machine's, else a "+
			"download)")
		f.BoolVar(&o.AllowTrust, "allow-trust", false, "for the first minutes: let in clients without a password")
		required = append(required, "listen")
	}
	for _, name := range append([]string{"dir", "name", "member-listen"}, required...) {
		if err := c.MarkFlagRequired(name); err != nil {
			panic(err)
		}
	}
}

func initCommand() *cobra.Command {
	var o join.Options
	c := &cobra.Command{
		Use: "init", Short: "Make the directory of a node that is a cluster of one; others join it",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return join.Init(o, os.Stdout) },
	}
	c.Flags().StringVar(&o.Cluster, "cluster", "", "the cluster's name")
	c.Flags().StringVar(&o.Database, "dbname", "postgres", "the database to begin with")
	nodeOptions(c, &o, "cluster")
	return c
}

func joinCommand() *cobra.Command {
	return joins(join.Options{}, &cobra.Command{
		Use: "join", Short: "Add a member to a cluster, and make its node's directory",
		Long: "Adds a member to a cluster that was begun with tutti init, by a node that runs, and makes the " +
			"directory of its own\nnode. It may be run again if it fails. PGPASSWORD is the password of --username.",
	})
}

func witnessCommand() *cobra.Command {
	return joins(join.Options{Witness: true}, &cobra.Command{
		Use: "witness", Short: "Add a member without a database to a cluster, and make its directory",
		Long: "Adds a witness to a cluster that was begun with tutti init: a member that votes and keeps the log, " +
			"and has no\nPostgreSQL and no clients. With it, either of two others may be lost. It is run as any node " +
			"(tutti node).\nThis may be run again if it fails. PGPASSWORD is the password of --username.",
	})
}

// joins has a command add a member.
func joins(o join.Options, c *cobra.Command) *cobra.Command {
	c.Args = cobra.NoArgs
	c.RunE = func(c *cobra.Command, _ []string) error { return join.Join(c.Context(), o, os.Stdout) }
	c.Flags().StringVar(&o.Keys, "keys", "", "a copy of the directory cluster of the first node")
	c.Flags().StringVar(&o.From, "from", "", "client address host:port of a node that runs")
	c.Flags().StringVarP(&o.User, "username", "U", "postgres", "a superuser to connect as")
	nodeOptions(c, &o, "keys", "from")
	return c
}
