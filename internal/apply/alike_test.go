package apply

import (
	"fmt"
	"testing"

	"github.com/tuttidb/tutti/internal/writeset"
)

// TestRowsOfOneIdentity: what is done to rows with other keys is not netted, though their identities be equal: it is
// done one after the other.
func TestRowsOfOneIdentity(t *testing.T) {
	image := func(id, x string) string {
		return string(writeset.AppendRecord(nil, []writeset.Field{{OID: 25, Value: []byte(id)}, {OID: 25},
			{OID: 25, Value: []byte(x)}}))
	}
	set := func(id, x string) writeset.Row {
		record := []writeset.Field{{OID: 25, Value: []byte(id)}, {OID: 25}, {OID: 25, Value: []byte(x)}}
		return writeset.Row{Op: writeset.OpSet, Identity: 1,
			Image: writeset.AppendSet(nil, []writeset.Setting{{Column: 2}}, record)}
	}
	for _, c := range []struct {
		name string
		ws   []*writeset.Writeset
		want string // the operations and how many rows each changes
	}{
		{"one key", []*writeset.Writeset{one(row(upd, 1, image("1", "a"))), one(row(upd, 1, image("1", "b")))},
			"UPDATE 1;"},
		{"two keys", []*writeset.Writeset{one(row(upd, 1, image("1", "a"))), one(row(upd, 1, image("-1", "b")))},
			"UPDATE 1;UPDATE 1;"},
		{"in one writeset", []*writeset.Writeset{one(row(upd, 1, image("1", "a")), row(ins, 1, image("-1", "b")))},
			"UPDATE 1;INSERT 1;"},
		{"deleted and made", []*writeset.Writeset{one(row(ins, 1, image("1", "a"))), one(row(del, 1, image("-1", ""))),
			one(row(del, 1, image("1", "")))}, "INSERT 1;DELETE 1;DELETE 1;"},
		{"others beside them", []*writeset.Writeset{one(row(upd, 1, image("1", "a")), row(upd, 2, image("2", "a"))),
			one(row(upd, 2, image("2", "b")), row(upd, 1, image("-1", "b")))}, "UPDATE 2;UPDATE 1;"},
		{"blind", []*writeset.Writeset{one(set("1", "a")), one(set("-1", "b")), one(set("-1", "c"))},
			"UPDATE -1 of 1;UPDATE -1 of 1;"},
		{"text", []*writeset.Writeset{inText(one(row(upd, 1, "(1,,a)"), row(upd, 1, `("-1",,b)`)))},
			"UPDATE 1;UPDATE 1;"},
	} {
		ops, err := Plan(c.ws, lookup, InPlace)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		got := ""
		for _, o := range ops {
			got += fmt.Sprintf("%s %d", o.SQL[:6], o.Rows)
			if o.Asks != nil {
				got += fmt.Sprintf(" of %d", len(o.Asks))
			}
			got += ";"
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func inText(w *writeset.Writeset) *writeset.Writeset {
	w.Tables[0].Format = writeset.FormatText
	return w
}
