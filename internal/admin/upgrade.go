package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// Upgrade prints what the members run and understand, and what the cluster's level is. If it is to, it has a node
// finish an upgrade before. Its error has the exit code.
func Upgrade(ctx context.Context, t Target, finish bool, w io.Writer) error {
	if err := t.resolve(); err != nil {
		return Usage(err)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if finish {
		if _, err := t.newer(ctx, "CALL tutti.finish_upgrade()"); err != nil {
			return exit(refusal(err), err)
		}
	}
	got, err := t.newer(ctx, "SHOW tutti.upgrade")
	if err != nil {
		return exit(exitUnknown, err)
	}
	if err := got.print(w, t.Format); err != nil {
		return exit(exitUnknown, err)
	}
	return got.finished()
}

// newer runs a statement at the first node that knows it: those of a release before do not.
func (t *Target) newer(ctx context.Context, sql string) (table, error) {
	var errs []error
	for _, a := range t.Addresses {
		one := *t
		one.Addresses = []string{a}
		got, err := one.run(ctx, sql)
		if err == nil || !unavailable(err) && !unknown(err) {
			return got, err
		}
		if unknown(err) {
			err = fmt.Errorf("%s runs a release that does not know of this: %w", a, err)
		}
		errs = append(errs, err)
	}
	return table{}, errors.Join(errs...)
}

// unknown reports whether a node says that there is no such statement.
func unknown(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (pg.Code == "42704" || pg.Code == "42883" || pg.Code == "0A000")
}

// finished is nil if no upgrade is to be finished: nobody understands more, or less, than the cluster's level.
func (t table) finished() error {
	member, level, cluster := t.column("member"), t.column("level"), t.column("cluster")
	var behind, ahead []string
	for _, r := range t.rows {
		is, _ := strconv.Atoi(level(r)) // who has said nothing understands nothing yet
		all, err := strconv.Atoi(cluster(r))
		switch {
		case err != nil:
			return exit(exitUnknown, fmt.Errorf("the cluster's level is %q", cluster(r)))
		case is < all:
			behind = append(behind, member(r))
		case is > all:
			ahead = append(ahead, member(r))
		}
	}
	switch {
	case len(behind) > 0:
		return exit(exitNotFinished, fmt.Errorf("%s: no release was seen there that understands the cluster's level",
			strings.Join(behind, ", ")))
	case len(ahead) > 0:
		return exit(exitNotFinished, fmt.Errorf("an upgrade is not finished: when all run the new release, run "+
			"\"tutti upgrade finish\" (more than the cluster's level is understood at %s)", strings.Join(ahead, ", ")))
	}
	return nil
}
