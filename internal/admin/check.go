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

// checkTimeout is how long the comparison of one database may take. A node gives up a little earlier by itself.
const checkTimeout = 6 * time.Minute

// Verdicts of SHOW tutti.checksums about a member that did not take part. Others are about a table.
var missingVerdicts = []string{"unreachable", "behind", "halted"}

// Check compares every table of every database on every member that can be asked, those of a database at one ordinal.
// It prints every row with json, and with table a summary and the rows that differ. It fails if any does, or if a
// member is missing; its error has the exit code.
func Check(ctx context.Context, t Target, w io.Writer) error {
	if err := t.resolve(); err != nil {
		return exit(exitUnchecked, err)
	}
	databases, err := t.ask(ctx, "databases")
	if err != nil {
		return exit(exitUnchecked, err)
	}
	all := table{columns: []string{"database"}}
	var differ, missing []error
	for _, d := range databases.rows {
		t.Database = d[0]
		got, err := t.checksums(ctx)
		var pg *pgconn.PgError
		if errors.As(err, &pg) && pg.Code == "3D000" {
			continue // it was dropped meanwhile
		}
		if err != nil {
			return exit(exitUnchecked, fmt.Errorf("database %s: %w", d[0], err))
		}
		all.add(d[0], got)
		found := got.examine()
		if t.Format == "table" {
			if err := found.print(w, d[0]); err != nil {
				return exit(exitUnchecked, err)
			}
		}
		if bad := found.differ.rows; len(bad) > 0 {
			differ = append(differ, differs(d[0], bad[0]))
		}
		for _, m := range found.missing {
			missing = append(missing, fmt.Errorf("%s: not compared: %s", d[0], m))
		}
	}
	if t.Format == "json" {
		if err := all.print(w, t.Format); err != nil {
			return exit(exitUnchecked, err)
		}
	}
	if len(differ) > 0 {
		return exit(exitDiffers, errors.Join(append(differ, missing...)...))
	}
	return exit(exitIncomplete, errors.Join(missing...))
}

// add adds what a database answers. One without tables answers without columns.
func (t *table) add(database string, of table) {
	if len(of.columns) > 0 {
		t.columns = append(t.columns[:1], of.columns...)
	}
	for _, r := range of.rows {
		t.rows = append(t.rows, append([]string{database}, r...))
	}
}

func (t *Target) checksums(ctx context.Context) (table, error) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	return t.ask(ctx, "checksums")
}

// finding is what a check says of a database.
type finding struct {
	ordinal  string
	tables   int
	compared []string // members
	missing  []string // members, and why
	differ   table
}

func (t table) examine() finding {
	ordinal, member, name, verdict := t.column("ordinal"), t.column("member"), t.column("table"), t.column("verdict")
	f := finding{ordinal: "?", differ: table{columns: t.columns}}
	tables := map[string]bool{}
	for _, r := range t.rows {
		if slices.Contains(missingVerdicts, verdict(r)) {
			f.missing = append(f.missing, member(r)+" is "+verdict(r))
			continue
		}
		f.ordinal, tables[name(r)] = ordinal(r), true
		if !slices.Contains(f.compared, member(r)) {
			f.compared = append(f.compared, member(r))
		}
		if verdict(r) != "ok" {
			f.differ.rows = append(f.differ.rows, r)
		}
	}
	f.tables = len(tables)
	return f
}

func differs(database string, row []string) error {
	return fmt.Errorf("members differ in %s of database %s (member %s)", row[2], database, row[1])
}

// print says what was found in a database.
func (f *finding) print(w io.Writer, database string) error {
	if len(f.differ.rows) > 0 {
		return f.differ.print(w, "table")
	}
	on := "all members"
	if len(f.missing) > 0 {
		on = strings.Join(f.compared, " and ")
		if len(f.compared) == 0 {
			on = "those members that are not missing"
		}
	}
	_, err := fmt.Fprintf(w, "%s: %d tables are equal on %s at ordinal %s\n", database, f.tables, on, f.ordinal)
	return err
}
