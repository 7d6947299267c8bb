package capture

import (
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tuttidb/tutti/internal/writeset"
)

// Locked are rows of one table that a transaction has locked.
type Locked struct {
	Table  *TableDesc
	Op     writeset.Op // OpLock or OpShare
	Places []string    // their ctids, as text; none: all rows
}

// Lockable reports whether locks on rows of the table can be told to other members: what tells them does not
// depend on settings.
func (t *TableDesc) Lockable() bool {
	return t.Key() != nil && t.Key().expressible() && t.Binary()
}

// LockedQuery asks, in the transaction that has locked them, for the keys of those rows that it has not
// changed since. It returns one text, for ReadLocked, and runs through tutti.privileged.
func LockedQuery(list []Locked) string {
	parts := []string{WALPosition}
	for _, l := range list {
		if len(l.Places) == 0 {
			continue
		}
		t := l.Table
		parts = append(parts, fmt.Sprintf("(SELECT string_agg(concat(%d, ' ', %d, ' ', %s, ' ', encode(%s, 'hex')), "+
			"',') FROM ONLY %s.%s AS t WHERE t.ctid = ANY (%s::tid[]))",
			t.OID, l.Op, t.IdentitySQL("t"), triggerCode{t}.keyImage("t"), Quote(t.Schema), Quote(t.Name),
			literal(`{"`+strings.Join(l.Places, `","`)+`"}`)))
	}
	return "SELECT concat_ws(',', " + strings.Join(parts, ", ") + ")"
}

// ReadLocked reads the answer: the position of the server's WAL, the rows, and the tables of which all rows are locked.
func ReadLocked(list []Locked, answer []byte) (order uint64, locks []writeset.Lock, tables []writeset.TableLock,
	err error) {
	fields := strings.Split(string(answer), ",")
	if order, err = strconv.ParseUint(fields[0], 10, 64); err != nil {
		return 0, nil, nil, fmt.Errorf("capture: locked rows: %w", err)
	}
	for _, l := range list {
		if len(l.Places) == 0 {
			tables = append(tables, writeset.TableLock{Table: l.table(), Mode: writeset.ExclusiveTable})
		}
	}
	for _, f := range fields[1:] {
		lock, err := readLock(list, strings.Fields(f))
		if err != nil {
			return 0, nil, nil, fmt.Errorf("capture: locked rows: %w", err)
		}
		locks = append(locks, lock)
	}
	return order, locks, tables, nil
}

func readLock(list []Locked, f []string) (writeset.Lock, error) {
	if len(f) != 4 {
		return writeset.Lock{}, errors.New("a row is not told by four values")
	}
	n := slices.IndexFunc(list, func(l Locked) bool {
		return fmt.Sprint(l.Table.OID) == f[0] &&
			fmt.Sprint(l.Op) == f[1]
	})
	if n < 0 {
		return writeset.Lock{}, fmt.Errorf("table %q is not among those asked about", f[0])
	}
	identity, err := strconv.ParseInt(f[2], 10, 64)
	if err != nil {
		return writeset.Lock{}, err
	}
	image, err := hex.DecodeString(f[3])
	if err != nil {
		return writeset.Lock{}, err
	}
	return writeset.Lock{Table: list[n].table(), Op: list[n].Op, Identity: nonZero(uint64(identity)), Image: image}, nil
}

func (l *Locked) table() writeset.Table {
	return writeset.Table{Schema: l.Table.Schema, Name: l.Table.Name, Format: writeset.FormatBinary,
		Key: TableKey(l.Table.Schema, l.Table.Name)}
}
