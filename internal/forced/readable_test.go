package forced

import (
	"context"
	"testing"

	"github.com/tuttidb/tutti/internal/pgtest"
	"github.com/tuttidb/tutti/internal/writeset"
)

// TestReadable: rows in either form are written as PostgreSQL writes them, by the table's columns; what it does not
// take is hexadecimal.
func TestReadable(t *testing.T) {
	s := pgtest.Start(t)
	conn := s.Connect(t, "postgres").PgConn()
	exec := func(sql string) [][][]byte {
		t.Helper()
		r, err := conn.Exec(context.Background(), sql).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		return r[len(r)-1].Rows
	}
	exec(`CREATE TYPE feeling AS ENUM ('so', 'so "so"'); CREATE DOMAIN small AS int CHECK (VALUE < 10);
		CREATE TYPE pair AS (a int, b text); SET TimeZone = 'UTC'; SET bytea_output = 'escape';
		CREATE TABLE t (i8 int8, gone int, n numeric, f float8, b bytea, ts timestamptz, d date, j jsonb, u uuid,
			e feeling, s small, p pair, a text[], r int4range, x text, nothing text); ALTER TABLE t DROP gone;
		INSERT INTO t VALUES (-9223372036854775808, 'NaN', '-Infinity', '\x00ff', '-infinity', '4713-01-01 BC',
			'{"a": [1, null]}', '00000000-0000-0000-0000-000000000001', 'so "so"', 3, '(1,"x,y")', '{NULL,"",a}',
			'empty', E'é\t''"\\', NULL), (0, 0.10, 0.1, '', 'epoch', 'infinity', '1', gen_random_uuid(), 'so', -1,
			'(,)', '[2:2]={x}', '[1,)', '', NULL)`)
	columns := exec("SELECT attname FROM pg_attribute WHERE attrelid = 't'::regclass AND attnum > 0 AND NOT " +
		"attisdropped ORDER BY attnum")
	for _, f := range []writeset.Format{writeset.FormatBinary, writeset.FormatText} {
		form := map[writeset.Format]string{writeset.FormatBinary: "record_send(t)", writeset.FormatText: "t::text"}[f]
		for at, sql := range []string{"TABLE t LIMIT 1", "TABLE t OFFSET 1"} {
			want := exec("SELECT * FROM (" + sql + ") t")[0]
			r := conn.ExecParams(context.Background(), "SELECT "+form+" FROM ("+sql+") t", nil, nil, nil,
				[]int16{1}).Read()
			if r.Err != nil {
				t.Fatal(r.Err)
			}
			w := &writeset.Writeset{Tables: []writeset.Table{{Schema: "public", Name: "t", Format: f}},
				Rows: []writeset.Row{{Op: writeset.OpInsert, Image: r.Rows[0][0]}}}
			rows := readable{conn: conn, tables: map[string][]string{}}
			got := rows.changes(context.Background(), w, false)[0].Row
			for i, c := range columns {
				switch v := got[string(c[0])]; {
				case v == nil && want[i] == nil:
				case v == nil || want[i] == nil || *v != string(want[i]):
					t.Errorf("row %d, %s, form %s: %v, not %q", at, c[0], form, v, want[i])
				}
			}
		}
	}
	image := writeset.AppendRecord(nil, []writeset.Field{{OID: 23, Value: []byte{1}}, {OID: 99999, Value: []byte("q")},
		{OID: 25, Value: []byte("fine")}, {OID: 23}})
	rows := readable{conn: conn, tables: map[string][]string{}}
	got := rows.row(context.Background(), writeset.Table{Schema: "public", Name: "none", Format: writeset.FormatBinary},
		&writeset.Row{Op: writeset.OpDelete, Image: image})
	if len(got) != 3 || *got["column 1"] != `\x01` || *got["column 2"] != `\x71` || *got["column 3"] != "fine" {
		t.Errorf("%v", got)
	}
	if got := rows.row(context.Background(), writeset.Table{}, &writeset.Row{Image: []byte("x")}); *got["?"] != `\x78` {
		t.Errorf("%v", got)
	}
}
