package admin

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// demotes is the procedure that has a member never vote.
const demotes = "demote_member"

// Members has a node carry out one of the procedures that change the list of members, if one is named, and prints the
// list.
func Members(ctx context.Context, t Target, procedure string, args []string, w io.Writer) error {
	if err := t.resolve(); err != nil {
		return Usage(err)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if procedure != "" {
		if _, err := t.run(ctx, call(procedure, args...)); err != nil {
			return exit(refusal(err), err)
		}
	}
	got, err := t.ask(ctx, "members")
	if err != nil {
		return exit(exitUnknown, err)
	}
	return got.print(w, t.Format)
}

// refusal is the exit code of a change that has failed: a node has refused it, or none could be asked.
func refusal(err error) int {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || unavailable(err) || strings.HasPrefix(pg.Code, "28") || pg.Code == "3D000" {
		return exitUnknown // no session, or none in that database
	}
	return exitRefused
}
