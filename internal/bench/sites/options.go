package sites

import (
	"errors"
	"fmt"
)

// Options are the flags of "tutti bench sites".
type Options struct {
	// Diameter is how far the sites at both ends are apart, each way, in milliseconds.
	Diameter int
	// Updates are made at each site for each median.
	Updates int
	// JSON, if set, is the file the report is written to.
	JSON string
	// Dir is where the nodes' directory is made; empty means /var/tmp. BasePort is the first node's for clients.
	Dir      string
	BasePort int
	BinDir   string // PostgreSQL's binaries; empty means this machine's, else a download
}

// Defaults are the paper's diameter, and a few minutes.
func Defaults() Options { return Options{Diameter: paperDiameter, Updates: 25, BasePort: 6651} }

func (o *Options) validate() error {
	var errs []error
	if o.Diameter < 1 || o.Diameter > 1000 {
		errs = append(errs, fmt.Errorf("--diameter %d: use 1 to 1000", o.Diameter))
	}
	if o.Updates < 1 || o.Updates > 1000 {
		errs = append(errs, fmt.Errorf("--updates %d: use 1 to 1000", o.Updates))
	}
	return errors.Join(errs...)
}
