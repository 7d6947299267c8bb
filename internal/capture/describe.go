package capture

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// Catalog is what DescribeQuery found.
type Catalog struct {
	// Partial is true when there may be other tables, as they were before.
	Partial   bool        `json:"partial"`
	Tables    []TableDesc `json:"tables"`
	Functions []string    `json:"functions"` // generated functions that exist, sorted, unless it is partial
	// Gone are, of a partial one, tables that were dropped, or have another name, and relations that are not captured.
	Gone []Gone `json:"gone"`
}

// Gone is a table that may have been captured, by its last name, or by a key, in hexadecimal, that it had.
type Gone struct {
	Schema string `json:"schema"`
	Name   string `json:"name"`
	OID    uint32 `json:"oid"` // in this database
	Key    string `json:"key"`
}

// TableDesc describes one table whose rows are captured: permanent, ordinary (or a leaf
// partition), in a user schema.
type TableDesc struct {
	Schema  string   `json:"schema"`
	Name    string   `json:"name"`
	Array   uint32   `json:"array"`   // type OID of arrays of rows, in this database
	Trigger string   `json:"trigger"` // function the installed row trigger runs, or empty
	Bulk    []string `json:"bulk"`    // functions the installed statement triggers run
	OID     uint32   `json:"oid"`     // in this database
	Columns []Column `json:"columns"` // without dropped ones, in order
	Indexes []Index  `json:"indexes"` // unique and exclusion indexes, the primary key first, then in name order
	Foreign []Ref    `json:"foreign"` // foreign keys, in name order
	// Plain is true if nothing but PostgreSQL's own code runs when a row is written, and only
	// this table is written, at once: no triggers of users, rules, row security, inheritance,
	// deferrable constraints, nor user-written code in defaults, constraints and indexes.
	Plain bool `json:"plain"`
	// Coded is true if code that clients have written runs whenever a row is stored, and cannot be passed
	// over: that of indexes, generated columns, or domains.
	Coded bool `json:"coded"`
	// Single: no triggers of users, and no statement that names another table changes its rows, or the other
	// way round, apart from those of foreign keys.
	Root       uint32 `json:"root"` // the partitioned table that it is a partition of, at the top; 0 for none
	Single     bool   `json:"single"`
	Heirs      bool   `json:"heirs"`      // it is a partition, or has heirs, or inherits
	Referenced bool   `json:"referenced"` // by a foreign key, so that a deletion may go on elsewhere
	// Referring are the columns of foreign keys that refer to the table whose types are not those of its own.
	Referring []RefPart `json:"referring"`
}

// Column is a table's column.
type Column struct {
	Name      string `json:"name"`
	Num       int    `json:"num"`  // attribute number; gaps where columns were dropped
	Type      string `json:"type"` // as SQL, qualified
	OID       uint32 `json:"oid"`  // of the type
	Generated bool   `json:"generated"`
	Always    bool   `json:"always"` // GENERATED ALWAYS AS IDENTITY: an UPDATE cannot set it
	Domain    bool   `json:"domain"` // the type is a domain
	Binary    bool   `json:"binary"` // the binary form means the same at every member
	// Portable: and it is the same. Users' types have other OIDs at each member, and an array tells
	// whether it was made with nulls, which is forgotten when it is read in.
	Portable bool `json:"portable"`
	// Text is the OID of the type below all domains if a value can hold text, else 0.
	Text uint32 `json:"text"`
	// Length is how many characters a value may have, 0 if there is no such limit.
	Length int `json:"length"`
	// User are the types of users that its values are made of, if its type is one.
	User []UserType `json:"user"`
	// Narrow: its values are in entries of an index, or cannot be stored apart from the row.
	Narrow bool `json:"narrow"`
}

// Index is a unique index or the index of an exclusion constraint.
type Index struct {
	Name       string `json:"name"`        // of the index, or of its topmost partitioned parent
	RootSchema string `json:"root_schema"` // table of that parent; a plain table's own name otherwise
	RootTable  string `json:"root_table"`
	Primary    bool   `json:"primary"`
	// unique at any moment, valid, without predicate, of columns that are NOT NULL
	Names            bool    `json:"names"`
	Exclusion        bool    `json:"exclusion"`
	NullsNotDistinct bool    `json:"nulls_not_distinct"`
	Predicate        *string `json:"predicate"`
	Foreign          bool    `json:"foreign_code"` // expressions or predicate run user-written code
	Uses             []int   `json:"uses"`         // attribute numbers read; 0 = the whole row
	Parts            []Part  `json:"parts"`
}

// Part is one column or expression of an index.
type Part struct {
	Num       int    `json:"num"`       // attribute number, 0 for an expression
	Expr      string `json:"expr"`      // the expression, for Num 0
	Collation string `json:"collation"` // to add, as SQL; mostly empty
	Form      string `json:"form"`      // how the value is hashed: a key of forms; empty: it cannot be
	Equal     string `json:"equal"`     // the index's equality operator: OPERATOR(schema.=)
}

// Ref is a foreign key, seen from the referencing table.
type Ref struct {
	Name  string `json:"name"`
	Index struct {
		Name       string `json:"name"`
		RootSchema string `json:"root_schema"`
		RootTable  string `json:"root_table"`
		Primary    bool   `json:"primary"`
	} `json:"index"` // the referenced one
	RefSchema string    `json:"ref_schema"`
	RefTable  string    `json:"ref_table"`
	Parts     []RefPart `json:"parts"` // in the referenced index's order
}

// RefPart is one column of a foreign key.
type RefPart struct {
	Num       int    `json:"num"`      // attribute number of the referencing column
	Base      uint32 `json:"base"`     // its base type
	RefName   string `json:"ref_name"` // referenced column
	RefBase   uint32 `json:"ref_base"` // its base type
	RefType   string `json:"ref_type"` // the same as SQL, without length
	Collation string `json:"collation"`
	Form      string `json:"form"` // of the referenced column
}

// DecodeDescribe reads the single value DescribeQuery returns.
func DecodeDescribe(b []byte) (Catalog, error) {
	var c Catalog
	if err := json.Unmarshal(b, &c); err != nil {
		return Catalog{}, fmt.Errorf("capture: catalog description: %w", err)
	}
	for i := range c.Tables {
		if err := c.Tables[i].validate(); err != nil {
			return Catalog{}, err
		}
	}
	return c, nil
}

func (t *TableDesc) validate() error {
	for i := range t.Columns {
		if t.Columns[i].Num <= 0 {
			return fmt.Errorf("capture: column %q of table %s.%s has number %d", t.Columns[i].Name, t.Schema, t.Name,
				t.Columns[i].Num)
		}
	}
	for i := range t.Indexes {
		if err := t.Indexes[i].validate(t); err != nil {
			return fmt.Errorf("capture: index %q of table %s.%s %w", t.Indexes[i].Name, t.Schema, t.Name, err)
		}
	}
	for _, f := range t.Foreign {
		for _, p := range f.Parts {
			err := t.numbered(p.Num)
			switch {
			case p.Num == 0:
				err = errors.New("has no column")
			case !knownForm(p.Form):
				err = fmt.Errorf("has a key of unknown form %q", p.Form)
			}
			if err != nil {
				return fmt.Errorf("capture: foreign key %q of table %s.%s %w", f.Name, t.Schema, t.Name, err)
			}
		}
	}
	return nil
}

// validate tells what is wrong with an index of a table.
func (x *Index) validate(t *TableDesc) error {
	for _, p := range x.Parts {
		if err := t.numbered(p.Num); err != nil {
			return err
		}
		if !knownForm(p.Form) {
			return fmt.Errorf("has a key of unknown form %q", p.Form)
		}
		if (p.Num == 0 || p.Equal == "") && (x.Primary || x.Names) {
			return errors.New("cannot be its key: an expression, or no equality")
		}
	}
	for _, u := range x.Uses {
		if err := t.numbered(u); err != nil {
			return err
		}
	}
	return nil
}

// numbered tells if there is no column with a number; 0 is the whole row, or an expression.
func (t *TableDesc) numbered(num int) error {
	if num != 0 && t.column(num) == nil {
		return fmt.Errorf("has no column number %d", num)
	}
	return nil
}

// column returns the column with an attribute number, or nil.
func (t *TableDesc) column(num int) *Column {
	for i := range t.Columns {
		if t.Columns[i].Num == num {
			return &t.Columns[i]
		}
	}
	return nil
}

// Integer reports whether a column is an int4 or int8.
func (c *Column) Integer() bool { return c.OID == 20 || c.OID == 23 }

// Key returns the index whose values name the table's rows, or nil: the primary key, or else the
// first unique index that can take its place. Rows are looked for by what is equal to their columns, so one of another
// collation, to which more is equal, cannot.
func (t *TableDesc) Key() *Index {
	for i := range t.Indexes { // the primary key is first
		if x := &t.Indexes[i]; x.Primary || x.Names && x.expressible() &&
			!slices.ContainsFunc(x.Parts, func(p Part) bool { return p.Collation != "" }) {
			return x
		}
	}
	return nil
}

// Keyed reports whether a column of this name belongs to a unique index.
func (t *TableDesc) Keyed(column string) bool {
	i := slices.IndexFunc(t.Columns, func(c Column) bool { return c.Name == column })
	return i >= 0 && slices.ContainsFunc(t.Indexes, func(x Index) bool {
		return !x.Exclusion && slices.ContainsFunc(x.Parts, func(p Part) bool { return p.Num == t.Columns[i].Num })
	})
}

// Binary reports whether the table's images are in binary.
func (t *TableDesc) Binary() bool {
	for i := range t.Columns {
		if !t.Columns[i].Binary {
			return false
		}
	}
	return true
}

// Portable reports whether equal rows have equal binary images at all members. Otherwise rows are
// compared by their text.
func (t *TableDesc) Portable() bool {
	for i := range t.Columns {
		if !t.Columns[i].Portable {
			return false
		}
	}
	return true
}
