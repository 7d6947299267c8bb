package halt

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/peers"
	"github.com/tuttidb/tutti/internal/wire"
	"github.com/tuttidb/tutti/internal/writeset"
)

var errBad = &pgconn.PgError{Code: "23514", Message: "no", Detail: "it is so"}

// database takes every row but those of some identity.
type database struct {
	bad    uint64
	with   error // of those
	closed bool
	open   int
	tried  []int // rows at a time
}

func (d *database) Begin(context.Context) bool {
	if d.closed {
		return false
	}
	d.open++
	return true
}
func (d *database) End(context.Context) { d.open-- }
func (d *database) Try(_ context.Context, one *writeset.Writeset) error {
	d.tried = append(d.tried, len(one.Rows))
	if slices.ContainsFunc(one.Rows, func(r writeset.Row) bool { return r.Identity == d.bad }) {
		return d.with
	}
	return nil
}
func (d *database) KeyText(t writeset.Table, _ []byte) (columns, values string, ok bool) {
	return "id", "5", t.Name == "keyed"
}

// failed is a transaction with rows of these identities, in the table of this name.
func failed(name string, identities ...uint64) engine.Task {
	ws := &writeset.Writeset{Tables: []writeset.Table{{Schema: "public", Name: name}, {Schema: "public", Name: "b"}}}
	for _, id := range identities {
		ws.Rows = append(ws.Rows, writeset.Row{Op: writeset.OpUpdate, Identity: id})
	}
	return engine.Task{Ordinal: 7, Writeset: ws, Item: engine.Item{ID: writeset.TxID{Member: 2, Seq: 3}}}
}

// TestDescribe: the entry, its table and its row are named as far as they are known, and nothing that was tried to find
// out stays (HA5).
func TestDescribe(t *testing.T) {
	alone := failed("keyed", 1)
	alone.Writeset.Tables = alone.Writeset.Tables[:1]
	steps := failed("keyed", 5)
	steps.Writeset.Steps = make([]writeset.Step, 1)
	many := failed("keyed", make([]uint64, rowsMax+1)...)
	id := alone.Item.ID.String()
	fence := engine.Task{Ordinal: 7, Item: alone.Item}
	bad := func() *database { return &database{bad: 5, with: errBad} }
	used, deadlock, first := bad(), bad(), bad()
	used.closed, deadlock.with, first.bad = true, &pgconn.PgError{Code: "40P01"}, 0
	for name, c := range map[string]struct {
		task       engine.Task
		d          *database
		table, row string
	}{
		"a row":                    {failed("keyed", 4, 5, 6), bad(), "public.keyed", "(id)=(5)"},
		"a row without a key":      {failed("plain", 5), bad(), "public.plain", ""},
		"no row alone":             {failed("keyed", 6), bad(), "", ""},
		"no row of its only table": {alone, bad(), "public.keyed", ""},
		"one that may succeed":     {failed("keyed", 5), deadlock, "", ""},
		"a definition":             {steps, bad(), "", ""},
		"too many rows":            {many, first, "", ""},
		"the connection is in use": {failed("keyed", 5), used, "", ""},
		"a fence":                  {fence, bad(), "", ""},
	} {
		want := peers.Halt{Ordinal: 7, Transaction: id, Table: c.table, Row: c.row, Reason: reason(errBad)}
		h := Describe(context.Background(), &engine.Group{Tasks: []engine.Task{c.task}}, errBad, c.d)
		if *h != want || c.d.open != 0 {
			t.Errorf("%s: %+v, want %+v; left open: %d", name, *h, want, c.d.open)
		}
	}
	if got := reason(fmt.Errorf("node: %w", errBad)); got != errBad.Error()+"; it is so" {
		t.Errorf("the reason reads %q", got)
	}
	if h := Describe(context.Background(), nil, errBad, nil); h.Ordinal != 0 || h.Reason == "" {
		t.Errorf("without a group: %+v", h)
	}
}

// TestPairs: the two rows that say what a row without a key was and what it becomes are tried together.
func TestPairs(t *testing.T) {
	task := failed("plain", 0, 0, 9)
	task.Writeset.Rows[0].Op = writeset.OpDelete
	d := database{bad: 9, with: errBad}
	if culprit(context.Background(), task.Writeset, &d); !slices.Equal(d.tried, []int{2, 1}) {
		t.Errorf("tried at a time are %v rows", d.tried)
	}
}

// TestOneByOne: each entry is carried out with its own progress, the last with the group's, up to the one that fails,
// which is the one that is described (HA2).
func TestOneByOne(t *testing.T) {
	tasks := []engine.Task{{Ordinal: 4}, {Ordinal: 5}, {Ordinal: 6}}
	var upTo []uint64
	apply := func(to uint64, one []engine.Task) error {
		if upTo = append(upTo, to); len(one) != 1 || one[0].Ordinal == 5 && len(upTo) == 2 {
			return errBad
		}
		return nil
	}
	err := OneByOne(tasks, 9, apply)
	var entry *Entry
	if !errors.As(err, &entry) || entry.Task.Ordinal != 5 || !slices.Equal(upTo, []uint64{4, 5}) {
		t.Errorf("%v, up to %v", err, upTo)
	}
	h := Describe(context.Background(), &engine.Group{Tasks: tasks}, err, &database{})
	if h.Ordinal != 5 {
		t.Errorf("described is %d", h.Ordinal)
	}
	upTo = []uint64{0, 0, 0}
	if err := OneByOne(tasks, 9, apply); err != nil || !slices.Equal(upTo, []uint64{0, 0, 0, 4, 5, 9}) {
		t.Errorf("%v, up to %v", err, upTo)
	}
}

// TestRefused: who comes to a database that is halted, or waits for it, is told where and why.
func TestRefused(t *testing.T) {
	h := &peers.Halt{Ordinal: 7, Reason: "no"}
	e := Refused("shop", h)
	if e.Code != wire.CodeCannotConnectNow || e.Detail != "Entry 7: no" || e.Hint == "" {
		t.Errorf("told is %+v", e)
	}
	if got := (&Waits{"shop", h}).Error(); got != "database shop is halted at this member at entry 7: no" {
		t.Errorf("who waits is told %q", got)
	}
}
