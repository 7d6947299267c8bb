package semantics

import (
	"errors"
	"testing"
)

// TestFilled: what a member did when it added columns, in the form for the others.
func TestFilled(t *testing.T) {
	when, tag := "2024-02-29 12:00:00+00", `it's \ "x"`
	values := map[string]*string{"at": &when, "Odd": &tag, "none": nil, "n": &tag}
	for sql, want := range map[string]string{
		"ALTER TABLE t ADD COLUMN at timestamptz NOT NULL DEFAULT now()": "ALTER TABLE t ADD COLUMN at timestamptz " +
			"NOT NULL DEFAULT ('2024-02-29 12:00:00+00'::timestamptz), ALTER COLUMN at SET DEFAULT now()",
		`alter table if exists only "S"."T" add "Odd" varchar(9)[] default f(1, 'a') check ("Odd" <> '{}'), drop b ` +
			`cascade, add none date default nullif(current_date, current_date)`: `ALTER TABLE IF EXISTS ONLY "S"."T" ` +
			`ADD COLUMN "Odd" varchar(9)[] DEFAULT (E'it''s \\ "x"'::varchar(9)[]) CHECK ("Odd" <> '{}'), DROP b ` +
			`CASCADE, ` +
			`ADD COLUMN "none" date DEFAULT NULL, ALTER COLUMN "Odd" SET DEFAULT f(1, 'a'), ALTER COLUMN "none" SET ` +
			`DEFAULT NULLIF(current_date, current_date)`,
		"ALTER TABLE t ADD n int DEFAULT 7, ADD s serial, ADD i int GENERATED ALWAYS AS IDENTITY": "ALTER TABLE t " +
			"ADD COLUMN n int DEFAULT 7, ADD COLUMN s serial, ADD COLUMN i int GENERATED ALWAYS AS IDENTITY",
		"ALTER TABLE t ADD COLUMN IF NOT EXISTS old date DEFAULT current_date": "ALTER TABLE t " +
			"ADD COLUMN IF NOT EXISTS old date DEFAULT current_date",
	} {
		if got, err := Filled(sql, values); err != nil || got != want {
			t.Errorf("%s\n%v\n%s\nwant\n%s", sql, err, got, want)
		}
	}
	for _, sql := range []string{"ALTER TABLE t ADD COLUMN other date DEFAULT current_date", "SELECT 1", "ALTER TABLE",
		"ALTER TABLE a ADD at date DEFAULT now(); SELECT 1"} {
		if got, err := Filled(sql, values); !errors.Is(err, ErrFills) {
			t.Errorf("%s: %v %s", sql, err, got)
		}
	}
}

// TestRefills: where each member fills in values of its own first, nothing may look at them.
func TestRefills(t *testing.T) {
	for sql, want := range map[string]error{
		"ALTER TABLE t ADD s serial PRIMARY KEY, ADD u uuid UNIQUE NOT NULL DEFAULT gen_random_uuid()": nil,
		"ALTER TABLE t ADD r float DEFAULT random() CHECK (r < 1)":                                     ErrFills,
		"ALTER TABLE t ADD r int DEFAULT f() REFERENCES o":                                             ErrFills,
		"ALTER TABLE t ADD s serial, ADD CONSTRAINT c CHECK (s < 100)":                                 ErrFills,
		"ALTER TABLE t ADD s serial, ADD FOREIGN KEY (s) REFERENCES o":                                 ErrFills,
		"ALTER TABLE t ADD s serial, ADD EXCLUDE USING gist (s WITH =)":                                ErrFills,
	} {
		if err := Refills(sql); !errors.Is(err, want) {
			t.Errorf("%s: %v", sql, err)
		}
	}
}
