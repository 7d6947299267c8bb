package certify

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/tuttidb/tutti/internal/writeset"
)

// The matrix's row, its table, and that of rows which refer to it, or are written by who reads it.
const (
	matrixRow, matrixTable, matrixOther = 7, 50, 60
)

// effects are what one transaction does to a row or its table, by the names that doc.go uses. What another has done to
// the same row or table before it, unseen, is in its way or not.
var effects = []struct {
	name string
	make func(child uint64) *writeset.Writeset
}{
	{"insert", rowEffect(writeset.OpInsert)},
	{"update", rowEffect(writeset.OpUpdate)},
	{"rekey", rowEffect(writeset.OpReplace)},
	{"delete", rowEffect(writeset.OpDelete)},
	{"lock", rowEffect(writeset.OpLock)},
	{"share", rowEffect(writeset.OpShare)},
	{"add", rowEffect(writeset.OpAdd)},
	{"set", rowEffect(writeset.OpSet)},
	{"drop", rowEffect(writeset.OpDrop)},
	{"refer", func(child uint64) *writeset.Writeset {
		w := written(matrixOther, writeset.Row{Op: writeset.OpInsert, Identity: child, Image: []byte{1}})
		w.Keys = append(w.Keys, writeset.Key{Hash: matrixRow, Mode: writeset.Shared, Table: 0})
		return w
	}},
	{"read", func(child uint64) *writeset.Writeset {
		w := written(matrixOther, writeset.Row{Op: writeset.OpInsert, Identity: child, Image: []byte{1}})
		w.Pin(nil, []writeset.Pinned{{Table: writeset.Table{Name: "t", Key: matrixTable}, Identity: matrixRow}})
		return w
	}},
	{"scan", func(child uint64) *writeset.Writeset {
		w := written(matrixOther, writeset.Row{Op: writeset.OpInsert, Identity: child, Image: []byte{1}})
		w.AddRead(writeset.Table{Name: "t", Key: matrixTable})
		return w
	}},
	{"truncate", func(uint64) *writeset.Writeset {
		return written(matrixTable, writeset.Row{Op: writeset.OpTruncate})
	}},
}

func rowEffect(op writeset.Op) func(uint64) *writeset.Writeset {
	return func(uint64) *writeset.Writeset {
		return written(matrixTable, writeset.Row{Op: op, Identity: matrixRow, Image: []byte{1}})
	}
}

// written is a writeset with one row, in a table of a key.
func written(key uint64, row writeset.Row) *writeset.Writeset {
	w := &writeset.Writeset{Tables: []writeset.Table{{Name: fmt.Sprint("t", key), Key: key}}, Rows: []writeset.Row{row}}
	w.AddTableKeys()
	return w
}

// cell certifies a second transaction behind a first one that it has seen, or not.
func cell(first, second *writeset.Writeset, seen bool) Verdict {
	c := New(Options{})
	if v := c.Certify(1, Transaction{ID: writeset.TxID{Member: 1, Seq: 1}, Writeset: first}); !v.Commit() {
		return v
	}
	t := Transaction{ID: writeset.TxID{Member: 2, Seq: 2}, Writeset: second}
	if seen {
		t.Base, t.SharedBase = 1, 1
	}
	return c.Certify(2, t)
}

// matrix prints what is in the way of what: a line for what the first transaction has done, a column for the second.
func matrix() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-8s", "")
	for _, second := range effects {
		fmt.Fprintf(&b, " %s", second.name)
	}
	for _, first := range effects {
		fmt.Fprintf(&b, "\n%-8s", first.name)
		for _, second := range effects {
			m := "."
			if !cell(first.make(8), second.make(9), false).Commit() {
				m = "x"
			}
			fmt.Fprintf(&b, " %-*s", len(second.name), m)
		}
	}
	return b.String()
}

// TestMatrix: doc.go's matrix is what Certify decides, cell by cell, where the second transaction has not seen the
// first. Where it has, nothing is in its way. A loser is told whom it has lost to.
func TestMatrix(t *testing.T) {
	page, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	var printed []string
	for line := range strings.Lines(string(page)) {
		rest, ok := strings.CutPrefix(line, "//\t")
		if ok && (len(printed) > 0 || strings.Contains(rest, " insert update ")) && len(printed) <= len(effects) {
			printed = append(printed, strings.TrimRight(rest, " \n"))
		}
	}
	var is []string
	for line := range strings.Lines(matrix()) {
		is = append(is, strings.TrimRight(line, " \n"))
	}
	if !slices.Equal(printed, is) {
		t.Errorf("doc.go prints\n%s\nand it is\n%s", strings.Join(printed, "\n"), strings.Join(is, "\n"))
	}
	for _, first := range effects {
		for _, second := range effects {
			if v := cell(first.make(8), second.make(9), true); !v.Commit() {
				t.Errorf("%s loses to %s, which it has seen: %+v", second.name, first.name, v)
			}
			v := cell(first.make(8), second.make(9), false)
			told := v.Reason == KeyConflict && v.Winner.Seq == 1 && v.WinnerOrdinal == 1 && v.Key.Hash != 0
			if !v.Commit() && !told {
				t.Errorf("%s loses to %s: %+v", second.name, first.name, v)
			}
		}
	}
}

// TestMatrixHasLaws: what must hold of the cells, whatever else is in them.
func TestMatrixHasLaws(t *testing.T) {
	lost := func(first, second string) bool {
		at := func(name string) func(uint64) *writeset.Writeset {
			for _, e := range effects {
				if e.name == name {
					return e.make
				}
			}
			t.Fatalf("there is no effect %s", name)
			return nil
		}
		return !cell(at(first)(8), at(second)(9), false).Commit()
	}
	changes := []string{"insert", "update", "rekey", "delete", "add", "set", "drop", "truncate"}
	sees := []string{"update", "rekey", "delete", "lock", "share", "read", "scan", "insert", "truncate"}
	for _, first := range changes {
		for _, second := range sees { // no lost update, no stale read
			if !lost(first, second) {
				t.Errorf("%s does not lose to %s, which it has not seen", second, first)
			}
		}
		if first != "add" && !lost(first, "add") {
			t.Errorf("add does not lose to %s", first)
		}
	}
	for _, e := range effects {
		for _, blind := range []string{"set", "drop"} { // they do what they do where they are in the order (C8)
			if e.name != "truncate" && lost(e.name, blind) {
				t.Errorf("%s loses to %s", blind, e.name)
			}
		}
		for _, reader := range []string{"read", "scan"} { // who only reads takes nothing
			if e.name != "read" && e.name != "scan" && lost(reader, e.name) {
				t.Errorf("%s loses to %s", e.name, reader)
			}
		}
	}
	for _, gone := range []string{"rekey", "delete"} { // a referenced row stays, and who refers has seen that
		if !lost("refer", gone) || !lost(gone, "refer") {
			t.Errorf("refer and %s do not see each other", gone)
		}
	}
	if lost("add", "add") || lost("refer", "refer") || lost("share", "share") || lost("refer", "update") {
		t.Error("what commutes conflicts")
	}
}
