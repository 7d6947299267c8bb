package admin

import (
	"context"
	"io"
	"strings"
	"time"
)

// Members has a node carry out one of the procedures that change the list of members, if one is named, and prints the
// list.
func Members(ctx context.Context, t Target, procedure string, args []string, w io.Writer) error {
	if err := t.resolve(); err != nil {
		return Usage(err)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if procedure != "" {
		var list []string
		for _, a := range args {
			list = append(list, "'"+strings.ReplaceAll(a, "'", "''")+"'")
		}
		if _, err := t.run(ctx, "CALL tutti."+procedure+"("+strings.Join(list, ", ")+")"); err != nil {
			return exit(exitUnknown, err)
		}
	}
	got, err := t.ask(ctx, "members")
	if err != nil {
		return exit(exitUnknown, err)
	}
	return got.print(w, t.Format)
}
