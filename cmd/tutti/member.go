package main

import (
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/tuttidb/tutti/internal/admin"
)

// memberChanges are the commands that call one procedure each; none: the list is only shown.
var memberChanges = []struct {
	use, short string
	least      int
	most       int
	does       string
	dry        bool // what would become of the others can be asked
}{
	{"list", "List the members", 0, 0, "", false},
	{"add NAME ADDRESS [CLIENTS]", "Add a member, by its host:port for the others, and for clients", 2, 3,
		"add_member", false},
	{"remove NAME", "Remove a member, whether it is there or not; its node ends", 1, 1, "remove_member", true},
	{"move NAME ADDRESS [CLIENTS]", "Give a member other addresses, for a node on another machine", 2, 3,
		"move_member", false},
	{"demote NAME", "Have a member never vote; it keeps its database and serves clients", 1, 1, "demote_member", true},
	{"promote NAME", "Have a member vote again that was demoted", 1, 1, "promote_member", false},
	{"rank NAME RANK", "Rank a member: of those that could vote as well the higher rank does; write -- before a " +
		"negative one", 2, 2, "rank_member", false},
	{"site NAME SITE", "Note where a member is", 2, 2, "site_member", false},
}

func memberCommand() *cobra.Command {
	c := &cobra.Command{Use: "member", Short: "List, add, remove, replace and rank the members of the cluster",
		Long: "Lists the members of the cluster, and changes who they are, and who is to vote.\n\n" +
			"Exit codes:\n  0  done\n  1  a node refuses it, or with --dry-run: a database would not go on\n" +
			"  2  replace has not ended in time: run it again\n" +
			"  3  the cluster cannot be asked: a wrong flag, configuration or password"}
	for _, m := range memberChanges {
		var t admin.Target
		var dry bool
		sub := &cobra.Command{
			Use: m.use, Short: m.short,
			Args: func(c *cobra.Command, args []string) error {
				return admin.Usage(cobra.RangeArgs(m.least, m.most)(c, args))
			},
			RunE: func(c *cobra.Command, args []string) error {
				if dry {
					return admin.WithoutMember(c.Context(), t, m.does, args[0], os.Stdout)
				}
				return admin.Members(c.Context(), t, m.does, args, os.Stdout)
			},
		}
		target(sub, &t)
		if m.dry {
			sub.Flags().BoolVar(&dry, "dry-run", false, "only say what would become of the others, and who would "+
				"vote; exit 1 if they would not go on")
		}
		sub.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return admin.Usage(err) })
		c.AddCommand(sub)
	}
	c.AddCommand(replaceCommand())
	return c
}

func replaceCommand() *cobra.Command {
	var t admin.Target
	var r admin.Replacement
	c := &cobra.Command{
		Use:   "replace OLD --name NEW --member-address ADDRESS [--clients CLIENTS]",
		Short: "Have a new member take the place of another one",
		Long: "Adds a new member, with the rank and the site of the old one, waits until it has all and votes where " +
			"the old one did,\nand removes that. Start the new one's node meanwhile. An old one that cannot be " +
			"reached is removed\nfirst. It says what it waits for, and may be run again.",
		Args: func(c *cobra.Command, args []string) error { return admin.Usage(cobra.ExactArgs(1)(c, args)) },
		RunE: func(c *cobra.Command, args []string) error {
			r.Old = args[0]
			return admin.Replace(c.Context(), t, r, os.Stdout, os.Stderr)
		},
	}
	target(c, &t)
	f := c.Flags()
	f.StringVar(&r.Name, "name", "", "name of the new member")
	f.StringVar(&r.Address, "member-address", "", "its host:port for the other members")
	f.StringVar(&r.Clients, "clients", "", "its host:port for clients")
	f.DurationVar(&r.Timeout, "timeout", time.Hour, "how long to wait until it has taken the place")
	for _, name := range []string{"name", "member-address"} {
		if err := c.MarkFlagRequired(name); err != nil {
			panic(err)
		}
	}
	c.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return admin.Usage(err) })
	return c
}
