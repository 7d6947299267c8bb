package node

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tuttidb/tutti/internal/capture"
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
)

// collector speaks capture's collect step over the wire; it implements session.Collector.
type collector struct{ token uint64 }

// newCollector agrees with the database on a secret without which nobody can collect.
func newCollector(ctx context.Context, conn *pgconn.PgConn) (collector, error) {
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		return collector{}, fmt.Errorf("node: draw a secret: %w", err)
	}
	c := collector{token: binary.BigEndian.Uint64(b[:])}
	if _, err := conn.Exec(ctx, capture.TokenSQL(int64(c.token))).ReadAll(); err != nil {
		return c, fmt.Errorf("node: note the secret of the collect step: %w", err)
	}
	return c, nil
}

func (collector) AppendPrepare(dst []byte) []byte {
	dst = wire.AppendClose(dst, 'S', statementFire)
	dst = wire.AppendClose(dst, 'S', statementCollect)
	dst = wire.AppendClose(dst, 'S', statementAhead)
	dst = wire.AppendParse(dst, statementFire, capture.FireDeferred, nil)
	dst = wire.AppendParse(dst, statementAhead, capture.AheadStatement, capture.CollectParameterOIDs())
	return wire.AppendParse(dst, statementCollect, capture.CollectStatement, capture.CollectParameterOIDs())
}

// binaryFormat asks for all parameters and results in binary.
var binaryFormat = []int16{1}

func (c collector) AppendCollect(dst []byte, slot uint32, incarnation, seq uint64) []byte {
	dst = wire.AppendBind(dst, "", statementFire, nil, nil, nil)
	dst = wire.AppendExecute(dst, "", 0)
	return c.run(dst, statementCollect, slot, incarnation, seq)
}

// AppendAhead is AppendCollect without firing what is deferred.
func (c collector) AppendAhead(dst []byte, slot uint32, incarnation, seq uint64) []byte {
	return c.run(dst, statementAhead, slot, incarnation, seq)
}

func (c collector) run(dst []byte, statement string, slot uint32, incarnation, seq uint64) []byte {
	params := [][]byte{
		binary.BigEndian.AppendUint64(nil, c.token),
		binary.BigEndian.AppendUint32(nil, slot),
		binary.BigEndian.AppendUint64(nil, incarnation),
		binary.BigEndian.AppendUint64(nil, seq),
	}
	dst = wire.AppendBind(dst, "", statement, binaryFormat, params, binaryFormat)
	return wire.AppendExecute(dst, "", 0)
}

func (collector) Decode(rows [][][]byte) (session.Collected, error) {
	c := &collection{}
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
