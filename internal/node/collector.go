package node

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tuttidb/tutti/internal/capture"
	"github.com/tuttidb/tutti/internal/database/catalog"
	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
	"github.com/tuttidb/tutti/internal/writeset"
)

// Names of the statements every backend has prepared for the collect step.
const (
	statementFire    = "tutti fire"
	statementCollect = "tutti collect"
	statementAhead   = "tutti ahead"
	statementReread  = "tutti reread"
	statementMark    = "tutti mark"
)

// collector speaks capture's collect step over the wire; it implements session.Collector.
type collector struct {
	token  uint64
	proof  string
	tables func() *catalog.Tables
}

// newCollector agrees with the database on secrets without which nobody can collect or mark.
func newCollector(ctx context.Context, conn *pgconn.PgConn, tables func() *catalog.Tables) (collector, error) {
	var b [24]byte
	if _, err := rand.Read(b[:]); err != nil {
		return collector{}, fmt.Errorf("node: draw a secret: %w", err)
	}
	c := collector{token: binary.BigEndian.Uint64(b[:]), proof: hex.EncodeToString(b[8:]), tables: tables}
	if _, err := conn.Exec(ctx, capture.TokenSQL(int64(c.token), c.proof)).ReadAll(); err != nil {
		return c, fmt.Errorf("node: note the secret of the collect step: %w", err)
	}
	return c, nil
}

func (collector) AppendPrepare(dst []byte) []byte {
	dst = wire.AppendClose(dst, 'S', statementFire)
	dst = wire.AppendClose(dst, 'S', statementCollect)
	dst = wire.AppendClose(dst, 'S', statementAhead)
	dst = wire.AppendClose(dst, 'S', statementMark)
	dst = wire.AppendParse(dst, statementMark, capture.MarkStatement, capture.MarkParameterOIDs())
	dst = wire.AppendParse(dst, statementFire, capture.FireDeferred, nil)
	dst = wire.AppendParse(dst, statementAhead, capture.AheadStatement, capture.CollectParameterOIDs())
	return wire.AppendParse(dst, statementCollect, capture.CollectStatement, capture.CollectParameterOIDs())
}

// binaryFormat asks for all parameters and results in binary.
var binaryFormat = []int16{1}

func (c collector) AppendCollect(dst []byte, slot uint32, incarnation, seq uint64, anyway bool) []byte {
	dst = wire.AppendBind(dst, "", statementFire, nil, nil, nil)
	dst = wire.AppendExecute(dst, "", 0)
	return c.run(dst, statementCollect, slot, incarnation, seq, anyway)
}

// AppendAhead is AppendCollect without firing what is deferred.
func (c collector) AppendAhead(dst []byte, slot uint32, incarnation, seq uint64, anyway bool) []byte {
	return c.run(dst, statementAhead, slot, incarnation, seq, anyway)
}

func (c collector) run(dst []byte, statement string, slot uint32, incarnation, seq uint64, anyway bool) []byte {
	params := [][]byte{
		binary.BigEndian.AppendUint64(nil, c.token),
		binary.BigEndian.AppendUint32(nil, slot),
		binary.BigEndian.AppendUint64(nil, incarnation),
		binary.BigEndian.AppendUint64(nil, seq),
		{0},
	}
	if anyway {
		params[4][0] = 1
	}
	dst = wire.AppendBind(dst, "", statement, binaryFormat, params, binaryFormat)
	return wire.AppendExecute(dst, "", 0)
}

// AppendMark marks a transaction of direct statements alone.
func (c collector) AppendMark(dst []byte, slot uint32, incarnation, seq uint64) []byte {
	dst = wire.AppendBind(dst, "", statementMark, binaryFormat, [][]byte{
		binary.BigEndian.AppendUint32(nil, slot),
		binary.BigEndian.AppendUint64(nil, incarnation),
		binary.BigEndian.AppendUint64(nil, seq),
		[]byte(c.proof),
	}, nil)
	return wire.AppendExecute(dst, "", 0)
}

func (collector) AgainStatement() string { return capture.AgainStatement }

func (c collector) Catalog() any { return c.tables() }

func (collector) DirectMark() string { return capture.DirectMark }

func (collector) AskDirect(d *semantics.Direct) string { return capture.DirectSQL(d.Relation) }

// Direct makes a statement direct on the table that the session names; the table itself is known
// from the catalog alone.
func (c collector) Direct(d *semantics.Direct, answer [][]byte) (session.Rewritten, bool) {
	if len(answer) != 3 || string(answer[2]) != "t" {
		return nil, false
	}
	t := c.tables().Capture(string(answer[0]), string(answer[1]))
	if t == nil {
		return nil, false
	}
	op := map[semantics.Verb]writeset.Op{semantics.Insert: writeset.OpInsert, semantics.Update: writeset.OpUpdate, semantics.Delete: writeset.OpDelete}[d.Verb]
	how, ok := t.Direct(op, d.Alias, d.Sets)
	if !ok {
		return nil, false
	}
	return rewritten{how, how.SQL(d.Text)}, true
}

// rewritten is a direct statement as the session wants it.
type rewritten struct {
	how *capture.Direct
	sql string
}

func (r rewritten) SQL() string { return r.sql }

func (r rewritten) Read(values [][]byte) (session.Returned, error) {
	row, err := r.how.Read(values)
	return &row, err
}

func (collector) Decode(rows [][][]byte, returned []session.Returned) (session.Collected, error) {
	c := &collection{}
	for _, r := range returned {
		if err := c.AddReturned(r.(*capture.Returned)); err != nil {
			return nil, err
		}
	}
	for _, r := range rows {
		if err := c.AddBinary(r); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// collection is a capture.Collector as the session wants it.
type collection struct{ capture.Collector }

func (c *collection) Rereads() [][]byte {
	var out [][]byte
	for _, r := range c.Collector.Rereads() {
		frames := wire.AppendClose(nil, 'S', statementReread)
		frames = wire.AppendParse(frames, statementReread, r.SQL, []uint32{r.ParameterOID})
		frames = wire.AppendBind(frames, "", statementReread, []int16{int16(r.Format)}, [][]byte{r.Parameter}, binaryFormat)
		out = append(out, wire.AppendExecute(frames, "", 0))
	}
	return out
}

func (c *collection) Complete(i int, rows [][][]byte) error {
	for _, r := range rows {
		if err := c.AddFinal(i, r); err != nil {
			return err
		}
	}
	return nil
}

func (c *collection) Writeset() (*writeset.Writeset, error) { return c.Collector.Writeset() }
