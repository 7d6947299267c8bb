package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"text/tabwriter"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tuttidb/tutti/internal/config"
)

// Target says which cluster to ask, as whom, and how to print.
type Target struct {
	Addresses []string
	Config    string
	User      string
	Database  string
	Format    string // table or json
}

func (t *Target) resolve() error {
	if t.Format != "table" && t.Format != "json" {
		return fmt.Errorf("output %q is not known: use table or json", t.Format)
	}
	if t.Config != "" {
		c, err := config.Load(t.Config)
		if err != nil {
			return err
		}
		t.Database = c.Database
		for _, m := range c.Members {
			if m.Clients != "" {
				t.Addresses = append(t.Addresses, m.Clients)
			}
		}
	}
	if len(t.Addresses) == 0 {
		t.Addresses = []string{"127.0.0.1:6501", "127.0.0.1:6502", "127.0.0.1:6503"}
	}
	return nil
}

// table is an answer.
type table struct {
	columns []string
	rows    [][]string
}

// ask runs SHOW tutti.name at the first node that answers.
func (t *Target) ask(ctx context.Context, name string) (table, error) {
	return t.run(ctx, "SHOW tutti."+name)
}

// run runs a statement there.
func (t *Target) run(ctx context.Context, sql string) (table, error) {
	var errs []error
	for _, a := range t.Addresses {
		u := url.URL{Scheme: "postgres", User: url.User(t.User), Host: a, Path: "/" + t.Database,
			RawQuery: "connect_timeout=3&sslmode=prefer&application_name=tutti"}
		got, err := run(ctx, u.String(), sql)
		if err == nil {
			return got, nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", a, err))
		var pg *pgconn.PgError
		if errors.As(err, &pg) && pg.Code != "57P03" {
			break // the node answered; the others would say the same
		}
	}
	return table{}, errors.Join(errs...)
}

func run(ctx context.Context, url, sql string) (table, error) {
	conn, err := pgconn.Connect(ctx, url)
	if err != nil {
		return table{}, err
	}
	defer conn.Close(ctx)
	results, err := conn.Exec(ctx, sql).ReadAll()
	if err != nil {
		return table{}, err
	}
	var t table
	for _, f := range results[0].FieldDescriptions {
		t.columns = append(t.columns, f.Name)
	}
	for _, row := range results[0].Rows {
		var r []string
		for _, v := range row {
			r = append(r, string(v))
		}
		t.rows = append(t.rows, r)
	}
	return t, nil
}

func (t table) print(w io.Writer, format string) error {
	if format == "json" {
		list := make([]map[string]string, 0, len(t.rows))
		for _, r := range t.rows {
			m := map[string]string{}
			for i, c := range t.columns {
				m[c] = r[i]
			}
			list = append(list, m)
		}
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(list)
	}
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(tw, strings.ToUpper(strings.Join(t.columns, "\t")))
	for _, r := range t.rows {
		fmt.Fprintln(tw, strings.Join(r, "\t"))
	}
	return tw.Flush()
}
