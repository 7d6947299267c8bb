package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// Usage is an error of how the tool was called: nothing is known of the cluster.
func Usage(err error) error { return exit(exitUnknown, err) }

// Status prints the members of the cluster, as one of them sees it: one that knows who leads, if there is one. Its
// error has the exit code.
func Status(ctx context.Context, t Target, w io.Writer) error {
	if err := t.resolve(); err != nil {
		return Usage(err)
	}
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	got, err := t.view(ctx)
	if err != nil {
		return err
	}
	if err := got.print(w, t.Format); err != nil {
		return exit(exitUnknown, err)
	}
	return got.verdict()
}

// view asks one node after the other, until one knows who leads; if none does, the first answer counts.
func (t *Target) view(ctx context.Context) (table, error) {
	var first *table
	var errs []error
	code := exitCritical
	for _, a := range t.Addresses {
		one := *t
		one.Addresses = []string{a}
		got, err := one.ask(ctx, "status")
		switch {
		case err != nil:
			if errs = append(errs, err); !unavailable(err) {
				code = exitUnknown // it is there, and does not tell
			}
		case got.led():
			return got, nil
		case first == nil:
			first = &got
		}
	}
	if first != nil {
		return *first, nil
	}
	what := "CRITICAL: no node takes clients"
	if code == exitUnknown {
		what = "UNKNOWN: no node tells"
	}
	return table{}, exit(code, fmt.Errorf("%s:\n%w", what, errors.Join(errs...)))
}

// unavailable reports whether an error is no answer of the cluster's: its clients cannot be served either.
func unavailable(err error) bool {
	var pg *pgconn.PgError
	return !errors.As(err, &pg) || pg.Code == "57P03"
}

// led reports whether the node that answered hears of a leader.
func (t table) led() bool {
	role, state := t.column("role"), t.column("state")
	return slices.ContainsFunc(t.rows, func(r []string) bool {
		return role(r) == "leader" &&
			state(r) != "unreachable"
	})
}

// column gives a function that finds the value of this column in a row.
func (t table) column(name string) func([]string) string {
	i := slices.Index(t.columns, name)
	return func(r []string) string {
		if i < 0 {
			return ""
		}
		return r[i]
	}
}

// verdict is nil if all is well: somebody leads, all members are synced, and none is known to differ.
func (t table) verdict() error {
	member, state, differ, reason := t.column("member"), t.column("state"), t.column("differs"), t.column("reason")
	serving := 0
	var not, apart []string
	for _, r := range t.rows {
		if d := differ(r); d != "" {
			apart = append(apart, member(r)+" differs in "+d)
		}
		switch state(r) {
		case "synced", "connected": // which a witness is
			if serving++; reason(r) == "" {
				continue
			}
		case "catching up":
			serving++
		}
		is := member(r) + " is " + strings.ReplaceAll(state(r), "no leader", "without a leader")
		switch why := reason(r); {
		case why == "":
		case state(r) == "copying":
			is += " " + why
		case strings.HasPrefix(why, "slow"):
			is += ", " + why
		default:
			is += " at " + why
		}
		not = append(not, is)
	}
	switch why := strings.Join(not, ", "); {
	case !t.led():
		return exit(exitCritical, fmt.Errorf("CRITICAL: nobody leads, so nothing can be written: %s", why))
	case 2*serving <= len(t.rows):
		return exit(exitCritical, fmt.Errorf("CRITICAL: %d of %d members serve clients: %s", serving, len(t.rows), why))
	case len(apart) > 0:
		return exit(exitCritical, fmt.Errorf("CRITICAL: copies differ: %s", strings.Join(append(apart, not...), ", ")))
	case len(not) > 0:
		return exit(exitWarning, fmt.Errorf("WARNING: %d of %d members serve clients: %s", serving, len(t.rows), why))
	}
	return nil
}
