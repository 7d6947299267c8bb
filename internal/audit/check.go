package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sort"
	"strconv"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tuttidb/tutti/internal/database/link"
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/flow"
	"github.com/tuttidb/tutti/internal/metrics"
	"github.com/tuttidb/tutti/internal/process"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
)

var checkTimeout = metrics.Most(flow.WaitSums)

// Sum is the content of one table at one ordinal: its rows, and the sum of their
// hashes, which does not depend on their order.
type Sum struct {
	Table string `json:"table"`
	Rows  int64  `json:"rows"`
	Sum   string `json:"sum"`
}

// report is one member's answer to a check.
type report struct {
	Seq     uint64 `json:"seq"` // of the check, at its origin
	Life    uint64 `json:"life"`
	Ordinal uint64 `json:"ordinal"`
	Member  uint32 `json:"member"`
	Tables  []Sum  `json:"tables"`
	Error   string `json:"error,omitempty"`
	Micros  int64  `json:"micros,omitempty"` // that it took
}

// checks are the ones this member has asked for.
type checks struct {
	mu sync.Mutex
	m  map[uint64]chan report
}

func (c *checks) init() { c.m = map[uint64]chan report{} }

func (c *checks) open(seq uint64, members int) chan report {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.m[seq] = make(chan report, members)
	return c.m[seq]
}

func (c *checks) close(seq uint64) {
	c.mu.Lock()
	delete(c.m, seq)
	c.mu.Unlock()
}

func (c *checks) deliver(r report) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ch := c.m[r.Seq]; ch != nil {
		select {
		case ch <- r:
		default: // more answers than members: a duplicate
		}
	}
}

var Columns = []string{"ordinal", "member", "table", "rows", "checksum", "verdict"}

// Show answers SHOW tutti.checksums: it orders a check, waits for the sums at that ordinal of every member that can
// be expected to answer, and compares. Who does not answer has a row that says so.
func (a *Audit) Show() session.Result {
	seq := a.o.Seq()
	answers := a.checks.open(seq, len(a.o.Members()))
	defer a.checks.close(seq)
	taken := false
	if !a.o.Engine(func(e *engine.Engine) { taken = e.Submit(engine.Submission{Kind: engine.KindCheck, Seq: seq}) }) {
		return session.Result{Err: errOver()}
	}
	if !taken {
		return session.Result{Err: wire.Errorf(wire.CodeConfigurationLimit, "too many transactions wait to be ordered")}
	}
	wait := a.o.Waits.Begin(flow.WaitSums)
	got, missing, e := a.awaitReports(answers)
	wait.End()
	if e != nil {
		return session.Result{Err: e}
	}
	r := a.compare(got)
	for _, m := range a.o.Members() {
		if why := missing[m.Member]; why != "" && r.Err == nil {
			r.Rows = append(r.Rows, []string{"", m.Name, "", "", "", why})
		}
	}
	return r
}

// compare puts the sums of those who answered side by side; the verdict of a table is "ok" where a
// majority of them agrees with the member, else "differs".
func (a *Audit) compare(got map[uint32]report) session.Result {
	r := session.Result{Tag: "SHOW", Columns: Columns}
	votes := map[string]map[string]int{}
	for _, rep := range got {
		if rep.Error != "" {
			return session.Result{Err: wire.Errorf(wire.CodeInternalError,
				"node %s could not compute its checksums: %s", a.o.Name(rep.Member), rep.Error)}
		}
		for _, t := range rep.Tables {
			if votes[t.Table] == nil {
				votes[t.Table] = map[string]int{}
			}
			votes[t.Table][fmt.Sprint(t.Rows, " ", t.Sum)]++
		}
	}
	names := make([]string, 0, len(votes))
	for t := range votes {
		names = append(names, t)
	}
	sort.Strings(names)
	for _, name := range names {
		for _, m := range a.o.Members() {
			rep, answered := got[m.Member]
			if !answered {
				continue
			}
			row := []string{strconv.FormatUint(rep.Ordinal, 10), m.Name, name, "", "", "differs"}
			for _, t := range rep.Tables {
				if t.Table == name {
					row[3], row[4] = strconv.FormatInt(t.Rows, 10), t.Sum
					if 2*votes[name][fmt.Sprint(t.Rows, " ", t.Sum)] > len(got) {
						row[5] = "ok"
					}
				}
			}
			r.Rows = append(r.Rows, row)
		}
	}
	return r
}

// Carry takes a snapshot at the check's ordinal, between two groups, and computes the
// sums beside the executor.
func (a *Audit) Carry(ctx context.Context, t engine.Task) error {
	if p, err := decodePart(t.Item.Payload); p != nil || err != nil {
		return errors.Join(err, a.readPart(ctx, t, p))
	}
	conn, err := link.Connect(ctx, a.o.ConnString, "tutti check", Settings)
	if err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SELECT 1").ReadAll(); err != nil {
		return errors.Join(err, conn.Close(context.WithoutCancel(ctx)))
	}
	rep := report{Seq: t.Item.ID.Seq, Life: t.Item.ID.Incarnation, Ordinal: t.Ordinal, Member: a.o.Self}
	to := t.Item.ID.Member
	a.o.Background(func() {
		defer conn.Close(context.WithoutCancel(ctx))
		if rep.Tables, err = Sums(ctx, conn); err != nil {
			rep.Error = err.Error()
		}
		data, err := json.Marshal(rep)
		switch {
		case err != nil:
			a.o.Log.Error("a checksum report cannot be written", "error", err)
		case to == a.o.Self:
			a.Receive(to, data)
		default:
			// The one who asks may just have come back, and not be connected yet.
			for !a.o.Send(to, data) && process.Sleep(ctx, a.o.Gossip) {
			}
		}
	})
	return nil
}

// Settings make the text of values equal at all members.
var Settings = map[string]string{
	"DateStyle": "ISO, MDY", "IntervalStyle": "postgres", "TimeZone": "UTC", "extra_float_digits": "1",
	"bytea_output": "hex", "search_path": "pg_catalog",
}

func (a *Audit) Receive(from uint32, data []byte) {
	var r report
	if err := json.Unmarshal(data, &r); err != nil || r.Member != from {
		a.o.Log.Warn("a member's checksum report cannot be read", "member", from, "error", err)
		return
	}
	if r.Life == a.o.Incarnation {
		a.checks.deliver(r)
	}
}

// checkedOIDs are the permanent tables and materialized views of users: what is replicated.
const checkedOIDs = `SELECT c.oid FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE (c.relkind = 'r' OR c.relkind = 'm' AND c.relispopulated) AND c.relpersistence = 'p'
  AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'tutti') AND n.nspname NOT LIKE 'pg\_toast%'`

// checkedTables are their names.
const checkedTables = `SELECT pg_catalog.quote_ident(n.nspname) || '.' || pg_catalog.quote_ident(c.relname)
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.oid IN (` + checkedOIDs + `) ORDER BY 1`

// largeSum adds up the large objects, of which there is no row if there are none. An object's hash is over what it is
// and who may do what with it; its pages have theirs.
const largeSum = `SELECT 'large objects', count(*) FILTER (WHERE one), sum(h) FROM (
  SELECT true AS one, hashtextextended(concat_ws(' ', oid, pg_get_userbyid(lomowner), lomacl, obj_description(oid, 'pg_largeobject')), 0)::numeric AS h FROM pg_largeobject_metadata
  UNION ALL SELECT false, hashtextextended(concat_ws(' ', loid, pageno, encode(data, 'hex')), 0) FROM pg_largeobject) x HAVING count(*) > 0`

func Sums(ctx context.Context, conn *pgconn.PgConn) ([]Sum, error) {
	r, err := conn.Exec(ctx, checkedTables).ReadAll()
	if err != nil {
		return nil, err
	}
	out := []Sum{}
	for _, row := range r[0].Rows {
		name := string(row[0])
		sql := "SELECT count(*), coalesce(sum(hashtextextended(t::text, 0)::numeric), 0) FROM ONLY " + name + " t"
		s, err := conn.Exec(ctx, sql).ReadAll()
		if err != nil {
			return nil, fmt.Errorf("table %s: %w", name, err)
		}
		n, err := strconv.ParseInt(string(s[0].Rows[0][0]), 10, 64)
		if err != nil {
			return nil, err
		}
		out = append(out, Sum{Table: strings.TrimSpace(name), Rows: n, Sum: string(s[0].Rows[0][1])})
	}
	if r, err = conn.Exec(ctx, largeSum).ReadAll(); err != nil {
		return nil, fmt.Errorf("large objects: %w", err)
	}
	for _, row := range r[0].Rows {
		n, err := strconv.ParseInt(string(row[1]), 10, 64)
		if err != nil {
			return nil, err
		}
		out = append(out, Sum{Table: string(row[0]), Rows: n, Sum: string(row[2])})
	}
	return out, nil
}
