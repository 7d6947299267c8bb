package replay

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tuttidb/tutti/internal/apply"
	"github.com/tuttidb/tutti/internal/capture"
	"github.com/tuttidb/tutti/internal/database/catalog"
	"github.com/tuttidb/tutti/internal/database/link"
	"github.com/tuttidb/tutti/internal/failure"
	"github.com/tuttidb/tutti/internal/flow"
	"github.com/tuttidb/tutti/internal/metrics"
	"github.com/tuttidb/tutti/internal/wire"
	"github.com/tuttidb/tutti/internal/writeset"
)

// What leaves a member has been received there. PostgreSQL stores values that its receive functions refuse, or make
// other values of; and rows that fit, because of how they were compressed there. Once they are ordered every other
// member has to store them. So before that, values that are doubtful (capture.Doubt) are read in here as the others
// will read them, and rows that may not fit (capture.TableDesc.Wide) are stored in a copy of their table, which is
// taken back. What fails is the client's error.

const (
	receivers     = 4       // connections for that, at most, in each database
	receivedMax   = 500     // values in one go
	receivedBytes = 4 << 20 // of them, about
	receiveLock   = "200ms" // for a lock on a table that its own session has locked
	lockTimeout   = "55P03" // SQLSTATE when that is over
)

// Receiver reads values in. Its connections are made when they are needed.
type Receiver struct {
	connString string
	waits      *metrics.Waits
	ending     func() *wire.SQLError // why nobody waits any more; nil: somebody may
	busy       chan struct{}
	mu         sync.Mutex
	free       []*receiving
	over       bool
}

// receiving is a connection with what is prepared on it.
type receiving struct {
	conn     *pgconn.PgConn
	prepared map[string]bool
}

func NewReceiver(connString string, waits *metrics.Waits, ending func() *wire.SQLError) *Receiver {
	return &Receiver{connString: connString, waits: waits, ending: ending, busy: make(chan struct{}, receivers)}
}

// Close closes the connections that are free, and lets none be kept any more.
func (r *Receiver) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	for _, c := range r.free {
		_ = c.conn.Close(context.Background()) // the server notices either way
	}
	r.free = nil
}

// take gives a connection of which nobody else makes use.
func (r *Receiver) take(ctx context.Context) (*receiving, error) {
	select {
	case r.busy <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	r.mu.Lock()
	if n := len(r.free); n > 0 {
		c := r.free[n-1]
		r.free = r.free[:n-1]
		r.mu.Unlock()
		return c, nil
	}
	r.mu.Unlock()
	settings := apply.SessionSettings()
	settings[capture.SessionSetting] = capture.SessionApplies
	settings["lock_timeout"] = receiveLock
	// what is nested as deeply as this one bears is no burden for others, who have twice as much
	settings["max_stack_depth"] = "1MB"
	conn, err := link.Connect(ctx, r.connString, "tutti receiver", settings)
	if err != nil {
		<-r.busy
		return nil, err
	}
	return &receiving{conn: conn, prepared: map[string]bool{}}, nil
}

// give ends take.
func (r *Receiver) give(c *receiving) {
	r.mu.Lock()
	if r.over || c.conn.IsClosed() || c.conn.TxStatus() != 'I' || len(c.prepared) > preparedMax {
		_ = c.conn.Close(context.Background()) // the server notices either way
	} else {
		r.free = append(r.free, c)
	}
	r.mu.Unlock()
	<-r.busy
}

// unreceived says that a value, or a row, cannot be stored by others.
type unreceived struct {
	doubt catalog.Doubt
	err   *pgconn.PgError // nil: it would become another one
	wide  bool
}

// Outgoing is what of a writeset goes into the log, for which room gives room, and what of it is doubtful.
func Outgoing(tables *catalog.Tables, ws *writeset.Writeset, room func(int) []byte) (payload []byte,
	doubts []catalog.Doubt) {
	doubts = tables.Doubts(ws) // first: it may leave values out
	return ws.Append(room(ws.Size())), doubts
}

// Refused says why a writeset cannot be stored by others, nil if it can.
func (r *Receiver) Refused(tables *catalog.Tables, doubts, wide []catalog.Doubt) *wire.SQLError {
	if len(doubts) == 0 && len(wide) == 0 {
		return nil
	}
	defer r.waits.Begin(flow.WaitReadBack).End()
	ctx, cancel := context.WithTimeout(context.Background(), metrics.Most(flow.WaitReadBack))
	defer cancel()
	bad, err := r.receive(ctx, doubts, wide)
	if err != nil && r.ending() == nil { // its connection may have been ended
		bad, err = r.receive(ctx, doubts, wide)
	}
	switch {
	case err != nil && r.ending() != nil:
		return r.ending()
	case err != nil:
		return wire.Errorf(wire.CodeCannotConnectNow,
			"what the transaction has written cannot be looked at before it is ordered: %v", err).
			WithHint("The transaction might succeed if retried.")
	case bad != nil:
		return bad.refusal(tables)
	}
	return nil
}

// refusal is what the client is told.
func (bad *unreceived) refusal(tables *catalog.Tables) *wire.SQLError {
	d := bad.doubt
	where := fmt.Sprintf("In a row of table %s", d.Table)
	if d.Name != "" {
		where += fmt.Sprintf(", column %q", d.Name)
	}
	if columns, values, ok := tables.KeyText(d.Table, d.Row.Record()); ok {
		where += fmt.Sprintf(", key (%s)=(%s)", columns, values)
	}
	if bad.err == nil {
		return wire.Errorf(wire.CodeFeatureNotSupported,
			"a value would be another one at other members of the cluster").
			WithDetail("%s: it is not the same when it is sent and received again.",
				where).WithHint("Write another value, or NULL.")
	}
	if strings.HasPrefix(bad.err.Code, "XX") {
		bad.err.Code = wire.CodeFeatureNotSupported // it has no code of its own
	}
	if bad.wide {
		return wire.Errorf(bad.err.Code, "%s", bad.err.Message).WithDetail(
			"%s: PostgreSQL stores it here, but other members could not.", where).
			WithHint("It may have been compressed in a way that others do not use: see default_toast_compression, " +
				"and COMPRESSION and STORAGE of the columns it comes from.")
	}
	return wire.Errorf(bad.err.Code, "%s", bad.err.Message).WithDetail(
		"%s: PostgreSQL stores the value, but does not take it from another member.", where).
		WithHint("Write another value, or NULL.")
}

func (r *Receiver) receive(ctx context.Context, doubts, wide []catalog.Doubt) (bad *unreceived, err error) {
	c, err := r.take(ctx)
	if err != nil {
		return nil, err
	}
	defer r.give(c)
	for len(doubts) > 0 && bad == nil && err == nil {
		n, size := 0, 0
		for n < len(doubts) && n < receivedMax && size < receivedBytes {
			size += len(doubts[n].Value) + len(doubts[n].Row.Image)
			n++
		}
		bad, err = c.values(ctx, doubts[:n])
		doubts = doubts[n:]
	}
	for len(wide) > 0 && bad == nil && err == nil {
		n, size := 0, 0
		for n < len(wide) && wide[n].Desc == wide[0].Desc && size < receivedBytes {
			size += len(wide[n].Row.Image)
			n++
		}
		bad, err = c.store(ctx, wide[:n])
		wide = wide[n:]
	}
	return bad, err
}

// values reads values in, and finds the first one that cannot be, or becomes another one.
func (c *receiving) values(ctx context.Context, doubts []catalog.Doubt) (*unreceived, error) {
	for len(doubts) > 0 {
		n, bad, err := c.some(ctx, doubts)
		if err != nil || bad != nil && !bad.elsewhere() {
			return bad, err
		}
		doubts = doubts[n:]
	}
	return nil, nil
}

// elsewhere reports whether a value is of a type, or table, that may be its own transaction's, or locked by it, so that
// only another member can try it.
func (u *unreceived) elsewhere() bool {
	return u.err != nil && u.err.Code == lockTimeout || (u.doubt.Steps || u.doubt.Desc == nil) &&
		(u.doubt.Column < 0 || capture.UserOID(u.doubt.OID)) && u.err != nil &&
		(strings.HasPrefix(u.err.Code, "42") || u.err.Code == "XX000")
}

// some is values up to the first that is bad; it returns how many it has looked at.
func (c *receiving) some(ctx context.Context, doubts []catalog.Doubt) (n int, bad *unreceived, err error) {
	names := make([]string, len(doubts))
	for i := range doubts {
		if names[i], err = c.prepare(ctx, &doubts[i]); err == nil {
			continue
		}
		if i == 0 {
			return unreadable(doubts, 0, err)
		}
		doubts = doubts[:i] // it is looked at with the next ones
		break
	}
	p := c.conn.StartPipeline(ctx)
	for i := range doubts {
		d, format := &doubts[i], binaryFormat
		value := d.Value
		if d.Column < 0 {
			value = writeset.AppendArray(nil, d.Table.Format, [][]byte{d.Row.Record()})
			format = []int16{int16(d.Table.Format)}
		}
		p.SendQueryPrepared(names[i], [][]byte{value}, format, format)
	}
	err = p.Sync()
	for ; err == nil && n < len(doubts); n++ {
		again, failed := result(p)
		sent := doubts[n].Value
		if doubts[n].Column < 0 {
			sent = doubts[n].Row.Record()
		}
		if failed != nil {
			if e := p.Close(); e != nil && c.conn.IsClosed() {
				return 0, nil, e
			}
			return unreadable(doubts, n, failed)
		}
		if !capture.Unchanged(sent, again) {
			bad = &unreceived{doubt: doubts[n]}
			break
		}
	}
	return n, bad, errors.Join(err, p.Close())
}

// unreadable is what some returns for a value that cannot be read in.
func unreadable(doubts []catalog.Doubt, n int, err error) (int, *unreceived, error) {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && (pg.Code == lockTimeout || !failure.Transient(err) && !failure.Environmental(pg)) {
		return n + 1, &unreceived{doubt: doubts[n], err: pg}, nil
	}
	return n, nil, err
}

// result is the only value of a pipeline's next result.
func result(p *pgconn.Pipeline) (value []byte, err error) {
	got, err := p.GetResults()
	if err != nil {
		return nil, err
	}
	r, ok := got.(*pgconn.ResultReader)
	if !ok {
		return nil, fmt.Errorf("replay: receiver: unexpected answer %T", got)
	}
	for r.NextRow() {
		value = append([]byte{}, r.Values()[0]...)
	}
	_, err = r.Close()
	return value, err
}

// prepare makes the statement that reads a value in, and sends it again. Rows are read in as the applier does.
func (c *receiving) prepare(ctx context.Context, d *catalog.Doubt) (name string, err error) {
	sql, types := "SELECT $1", []uint32{d.OID}
	name = "t" + strconv.FormatUint(uint64(d.OID), 10)
	if d.Column < 0 {
		table := capture.Quote(d.Table.Schema) + "." + capture.Quote(d.Table.Name)
		sql, types, name = "SELECT pg_catalog.unnest($1::"+table+"[])", nil, "r"+table
	}
	if c.prepared[name] {
		return name, nil
	}
	if _, err = c.conn.Prepare(ctx, name, sql, types); err == nil {
		c.prepared[name] = true
	}
	return name, err
}

// store stores rows of one table in a copy of it, and takes that back.
func (c *receiving) store(ctx context.Context, rows []catalog.Doubt) (bad *unreceived, err error) {
	set := fmt.Sprintf("BEGIN; SET LOCAL %s = %s; SET LOCAL client_min_messages = error; SET LOCAL "+
		"synchronous_commit = off; ", capture.DDLSetting, capture.DDLOwn)
	if _, err = c.conn.Exec(ctx, set+rows[0].Desc.TryTable()).ReadAll(); err == nil {
		bad, err = c.storeIn(ctx, rows)
	}
	_, e := c.conn.Exec(ctx, "ROLLBACK").ReadAll()
	var pg *pgconn.PgError
	if errors.As(err, &pg) && (strings.HasPrefix(pg.Code, "42") || pg.Code == lockTimeout) {
		err = nil // the table is being changed, or locked: certification, or another member, has the say
	}
	return bad, errors.Join(err, e)
}

func (c *receiving) storeIn(ctx context.Context, rows []catalog.Doubt) (bad *unreceived, err error) {
	format := rows[0].Table.Format
	try := func(rows []catalog.Doubt) (*pgconn.PgError, error) {
		images := make([][]byte, len(rows))
		for i := range rows {
			images[i] = rows[i].Row.Image
		}
		if _, err := c.conn.Exec(ctx, "SAVEPOINT rows").ReadAll(); err != nil {
			return nil, err
		}
		err := c.conn.ExecParams(ctx, rows[0].Desc.TryRows(), [][]byte{writeset.AppendArray(nil, format, images)}, nil,
			[]int16{int16(format)}, nil).Read().Err
		var pg *pgconn.PgError
		if !errors.As(err, &pg) || failure.Transient(err) || failure.Environmental(pg) ||
			strings.HasPrefix(pg.Code, "42") {
			return nil, err
		}
		_, err = c.conn.Exec(ctx, "ROLLBACK TO rows").ReadAll()
		if strings.HasPrefix(pg.Code, "23") {
			return nil, err // that is no question of what fits
		}
		return pg, err
	}
	failed, err := try(rows)
	if failed == nil || err != nil {
		return nil, err
	}
	for i := range rows {
		if len(rows) > 1 {
			failed, err = try(rows[i : i+1])
		}
		if failed != nil && err == nil {
			return &unreceived{doubt: rows[i], err: failed, wide: true}, nil
		}
		if err != nil {
			return nil, err
		}
	}
	return nil, nil
}
