package main

import (
	"errors"
	"os"

	"github.com/spf13/cobra"

	"github.com/tuttidb/tutti/internal/sim"
)

func simCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "sim --seed N | --seeds A..B [--members N] [--millis N] [--trace] [--keep-going]",
		Short: "Run simulated clusters, each from one seed; exit 1 safety, 2 liveness, 3 crash",
		// The simulator reads its own flags; its exit codes are its own too.
		DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			if code := sim.Main(args, os.Stdout); code != 0 {
				return codeError{code, errors.New("the simulation failed, see above")}
			}
			return nil
		},
	}
}
