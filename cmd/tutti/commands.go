package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"runtime/pprof"

	"github.com/spf13/cobra"

	"github.com/tuttidb/tutti/internal/admin"
	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/demo"
	"github.com/tuttidb/tutti/internal/failure"
	"github.com/tuttidb/tutti/internal/node"
	"github.com/tuttidb/tutti/internal/process"
	"github.com/tuttidb/tutti/internal/witness"
)

// codeError carries an exit code of its own.
type codeError struct {
	code int
	err  error
}

func (e codeError) Error() string { return e.err.Error() }

// ExitCode is the process's.
func (e codeError) ExitCode() int { return e.code }

// exitConfig says that the configuration must be changed before the process is started again, or another release
// installed: EX_CONFIG of sysexits.h.
const exitConfig = 78

func exitCode(err error) int {
	var c interface{ ExitCode() int }
	var config *failure.Config
	var newer *failure.Newer
	switch {
	case errors.As(err, &c):
		return c.ExitCode()
	case errors.As(err, &config), errors.As(err, &newer):
		return exitConfig
	}
	return 1
}

func demoCommand() *cobra.Command {
	var o demo.Options
	c := &cobra.Command{
		Use: "demo", Short: "Run a whole cluster on this machine to play with", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return demo.Run(c.Context(), o, os.Stdout) },
	}
	f := c.Flags()
	f.IntVar(&o.Nodes, "nodes", 3, "number of nodes")
	f.StringVar(&o.Dir, "dir", "", "data directory (default: one below your home, or /var/lib/tutti for root)")
	f.IntVar(&o.BasePort, "base-port", 6501, "node k listens for clients on base-port + k - 1")
	f.StringVar(&o.BinDir, "pg-bin-dir", "", "directory of PostgreSQL's binaries (default: this machine's, else a "+
		"download)")
	f.BoolVar(&o.NoSystem, "pg-embedded", false, "use the pinned PostgreSQL download even if this machine has one")
	f.BoolVar(&o.Ephemeral, "ephemeral", false, "use a temporary directory and remove it at the end")
	f.StringVar(&o.LogLevel, "log-level", "info", "of the nodes' log files: debug, info, warn, error")
	return c
}

func nodeCommand() *cobra.Command {
	var path, cpuProfile string
	var check bool
	c := &cobra.Command{
		Use: "node", Short: "Run one member of a cluster", Args: cobra.NoArgs,
		Long: "SIGTERM stops it when open transactions have ended (drain_timeout), again or SIGINT: now.\n" +
			"SIGHUP reads the configuration again.\n" +
			"Exit 78: the configuration, or what it names on this machine, must be changed first, or a newer " +
			"release be installed.",
		Annotations: map[string]string{ownSignals: "yes"},
		RunE: func(c *cobra.Command, _ []string) error {
			process.RelaxTimers()
			runtime.UnlockOSThread() // see init
			load := func() (*config.Config, error) { return config.Load(path) }
			cfg, err := load()
			if err != nil {
				return codeError{exitConfig, err}
			}
			if check {
				if err := node.CheckConfig(cfg); err != nil {
					return codeError{exitConfig, err}
				}
				_, err := fmt.Printf("%s: member %d, %s, of cluster %s: no mistake was found\n", path, cfg.Member,
					cfg.Self().Name, cfg.Cluster)
				return err
			}
			var level slog.LevelVar
			level.Set(cfg.Level())
			if cfg.Witness {
				w := witness.New(cfg, slog.New(cfg.LogHandler(os.Stderr, &level)))
				w.Obey()
				return profiled(cpuProfile, func() error { return w.Run(c.Context()) })
			}
			n := node.New(cfg, slog.New(cfg.LogHandler(os.Stderr, &level)))
			n.Obey(load, &level)
			return profiled(cpuProfile, func() error { return n.Run(c.Context()) })
		},
	}
	c.Flags().StringVar(&path, "config", "", "configuration file (TOML)")
	c.Flags().StringVar(&cpuProfile, "cpu-profile", "",
		"write a profile of the processor time into this file at the end, for go tool pprof")
	c.Flags().BoolVar(&check, "check-config", false,
		"read the configuration and the files it names, say what is wrong with them (exit 1), and do nothing else")
	if err := c.MarkFlagRequired("config"); err != nil {
		panic(err)
	}
	return c
}

// profiled runs f and, if file is not empty, writes what it spent processor time on into it.
func profiled(file string, f func() error) error {
	if file == "" {
		return f()
	}
	out, err := os.Create(file)
	if err != nil {
		return fmt.Errorf("--cpu-profile: %w", err)
	}
	if err := pprof.StartCPUProfile(out); err != nil {
		return errors.Join(fmt.Errorf("--cpu-profile: %w", err), out.Close())
	}
	err = f()
	pprof.StopCPUProfile()
	return errors.Join(err, out.Close())
}

// target adds the flags that say which cluster to ask.
func target(c *cobra.Command, t *admin.Target) {
	c.Flags().StringSliceVar(&t.Addresses, "address", nil,
		"client address host:port of a node; may be repeated (default 127.0.0.1:6501, :6502, :6503)")
	c.Flags().StringVar(&t.Config, "config", "", "take the addresses from a node's configuration file")
	c.Flags().StringVarP(&t.User, "username", "U", "postgres", "role to connect as")
	c.Flags().StringVarP(&t.Database, "dbname", "d", "postgres", "replicated database")
	c.Flags().StringVarP(&t.Format, "output", "o", "table", "table or json")
}

func statusCommand() *cobra.Command {
	var t admin.Target
	c := &cobra.Command{
		Use: "status", Short: "Show the members of the cluster; the exit code tells how it is",
		Long: "Shows the members of the cluster, as one of them sees it that knows who leads.\n\nExit codes, as " +
			"Nagios expects them, with the reason on standard error:\n" +
			"  0  somebody leads, and all members are synced\n  1  a member is unreachable or not synced; the others " +
			"serve clients\n" +
			"  2  nobody leads, no majority serves clients, copies differ, or no node answers\n  3  the cluster " +
			"cannot be asked: a wrong flag, configuration or password",
		Args: func(c *cobra.Command, args []string) error { return admin.Usage(cobra.NoArgs(c, args)) },
		RunE: func(c *cobra.Command, _ []string) error { return admin.Status(c.Context(), t, os.Stdout) },
	}
	target(c, &t)
	c.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return admin.Usage(err) })
	return c
}

func whatIfCommand() *cobra.Command {
	var t admin.Target
	var lost []string
	c := &cobra.Command{
		Use:   "what-if --lose MEMBER,…",
		Short: "Say whether the rest would go on if members were lost; exit 1 if it would not",
		Long: "Asks who votes now in each database, and says what becomes of the others if members are lost at " +
			"the same time, or one after the other, in whatever order, expel_after apart: whether they commit, " +
			"who votes then, how many copies of an acknowledged commit are left at least, and whether whichever " +
			"of them may be lost as well, later.\n\nExit codes:\n" +
			"  0  each database goes on if they are lost at the same time\n  1  one does not\n" +
			"  3  the cluster cannot be asked: a wrong flag, configuration or password",
		Args: func(c *cobra.Command, args []string) error { return admin.Usage(cobra.NoArgs(c, args)) },
		RunE: func(c *cobra.Command, _ []string) error { return admin.WhatIf(c.Context(), t, lost, os.Stdout) },
	}
	target(c, &t)
	c.Flags().StringSliceVar(&lost, "lose", nil, "names of the members that are lost")
	c.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return admin.Usage(err) })
	return c
}

func checkCommand() *cobra.Command {
	var t admin.Target
	c := &cobra.Command{
		Use: "check", Short: "Compare every table on every member at one point in the order; exit 1 if they differ",
		Long: "Compares every table of every database on every member at one point in the order. Members that do not " +
			"answer are left out, and named.\n\nExit codes:\n" +
			"  0  all members were compared, and are equal\n  1  members differ\n  2  those that were compared are " +
			"equal, but a member is missing\n  3  nothing could be compared",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return admin.Check(c.Context(), t, os.Stdout) },
	}
	target(c, &t)
	return c
}
