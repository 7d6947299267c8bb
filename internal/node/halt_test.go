package node

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tuttidb/tutti/internal/config"
)

// TestWhatHalts: what is the entry's, or the database's, fault halts who has not served anybody yet; what may go by itself never does.
func TestWhatHalts(t *testing.T) {
	pg := func(code string) error { return fmt.Errorf("table t: %w", &pgconn.PgError{Code: code}) }
	for _, x := range []struct {
		name string
		err  error
		want bool // to try again cannot help
	}{
		{"a row that is not there", &FatalError{errors.New("0 rows affected instead of 1")}, true},
		{"what cannot be planned", &FatalError{fmt.Errorf("entries 1 to 2: %w", errors.New("x"))}, true},
		{"a unique value that is taken", &FatalError{pg("23505")}, true},
		{"a value that is not received", pg("22P03"), true},
		{"a tsquery of stop words", pg("XX000"), true},
		{"an entry of an index that is too long", pg("54000"), true},
		{"a table that is not there", pg("42P01"), true},
		{"a file that an extension needs", pg("58P01"), true},
		{"damaged data", pg("XX001"), true},
		{"a disk that is full", pg("53100"), false},
		{"no memory", pg("53200"), false},
		{"too many connections", pg("53300"), false},
		{"the same, wrapped as final", &FatalError{pg("53100")}, false},
		{"a file that cannot be read", pg("58030"), false},
		{"PostgreSQL stops", pg("57P01"), false},
		{"a cancel", pg("57014"), false},
		{"a deadlock", pg("40P01"), false},
		{"a serialization failure", pg("40001"), false},
		{"a lock that is held", pg("55P03"), false},
		{"a connection that breaks", errors.New("unexpected EOF"), false},
		{"the end", context.Canceled, false},
	} {
		if got := lasting(x.err); got != x.want {
			t.Errorf("%s: lasting is %t", x.name, got)
		}
		if got := follows(x.err, false) == halts; got != x.want {
			t.Errorf("%s: before anybody was served it halts: %t", x.name, got)
		}
		if follows(x.err, true) != ends {
			t.Errorf("%s: who serves clients ends first, so that no session is left", x.name)
		}
	}
}

func TestHaltText(t *testing.T) {
	h := &halted{Ordinal: 7, Transaction: "1.2.3", Table: "public.t", Row: "(k)=(1)", Reason: "no"}
	if got, want := h.text(), "entry 7 (transaction 1.2.3), table public.t, row (k)=(1): no"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, want := (&halted{Ordinal: 7, Reason: "no"}).text(), "entry 7: no"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestNobodyWaitsForHalted: a member that is halted lacks nothing that others wait for.
func TestNobodyWaitsForHalted(t *testing.T) {
	l := &life{config: &config.Config{Member: 1, Members: []config.Member{{Member: 1, Name: "a"}, {Member: 2, Name: "b"}, {Member: 3, Name: "c"}}}, core: &core{}, tenure: &tenure{}, began: time.Now().Add(-time.Minute)}
	l.peers.init()
	for m, s := range map[uint32]status{2: {State: stateSynced, Applied: 9}, 3: {State: stateHalted, Applied: 2, Halted: &halted{Ordinal: 3}}} {
		l.peers.put(m, s)
	}
	if got := l.lacking(5); len(got) != 0 {
		t.Errorf("LISTEN waits for %v", got)
	}
	if got := l.lacking(10); len(got) != 1 {
		t.Errorf("LISTEN waits for %v, and should for the one that is just behind", got)
	}
	if told, fresh := l.askHold(3, holdRequest{}); told || fresh {
		t.Error("a hold asks a halted member")
	}
	if got := l.rehearser(); got != 2 {
		t.Errorf("member %d is to try transactions", got)
	}
	answered := map[uint32]checkReport{1: {Member: 1}, 2: {Member: 2}}
	if l.awaited(answered) {
		t.Error("the audit waits for a halted member")
	}
	if delete(answered, 2); !l.awaited(answered) {
		t.Error("the audit does not wait for a member that has not answered")
	}
}
