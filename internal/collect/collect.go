package collect

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

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
	statementPeek    = "tutti peek"
	statementDo      = "tutti do"
)

// Collector knows the secrets without which nobody can collect or mark.
type Collector struct {
	token  uint64
	proof  string
	secret []byte
	suffix string // ends the names of statements
	tables func() *catalog.Tables
}

// New agrees with the database of conn on the secrets. tables gives the tables as they are now. A transaction may
// change bytesMax bytes.
func New(ctx context.Context, conn *pgconn.PgConn, tables func() *catalog.Tables, bytesMax int) (Collector, error) {
	var b [48]byte
	if _, err := rand.Read(b[:]); err != nil {
		return Collector{}, fmt.Errorf("collect: draw a secret: %w", err)
	}
	c := Collector{token: binary.BigEndian.Uint64(b[:]), proof: hex.EncodeToString(b[8:24]), secret: b[24:40],
		suffix: " " + hex.EncodeToString(b[40:]), tables: tables}
	if _, err := conn.Exec(ctx, capture.TokenSQL(int64(c.token), c.proof, c.secret, bytesMax)).ReadAll(); err != nil {
		return c, fmt.Errorf("collect: note the secret of the collect step: %w", err)
	}
	return c, nil
}

// Roles is a collector as a session takes it.
func Roles(c Collector) session.Collector {
	return session.Collector{
		Captures: c, Steps: c, Extents: c, Locking: c, Rewriting: c, Facts: c, Marks: c, Pinning: c, Conversing: c,
	}
}

// Secret ends the names of statements that clients must not know.
func (c Collector) Secret() string { return c.suffix }

// AppendPrepare adds Parse messages for the statements of this package.
func (c Collector) named(statement string) string { return statement + c.suffix }

func (c Collector) AppendPrepare(dst []byte) []byte {
	dst = wire.AppendClose(dst, 'S', c.named(statementFire))
	dst = wire.AppendClose(dst, 'S', c.named(statementCollect))
	dst = wire.AppendClose(dst, 'S', c.named(statementAhead))
	dst = wire.AppendClose(dst, 'S', c.named(statementMark))
	dst = wire.AppendClose(dst, 'S', c.named(statementPeek))
	dst = wire.AppendClose(dst, 'S', c.named(statementDo))
	dst = wire.AppendParse(dst, c.named(statementPeek), capture.PeekStatement, capture.PeekParameterOIDs())
	dst = wire.AppendParse(dst, c.named(statementDo), capture.PrivilegedStatement, capture.PrivilegedParameterOIDs())
	dst = wire.AppendParse(dst, c.named(statementFire), capture.FireDeferred, nil)
	dst = wire.AppendParse(dst, c.named(statementAhead), capture.AheadStatement, capture.CollectParameterOIDs())
	dst = wire.AppendParse(dst, c.named(statementCollect), capture.CollectStatement, capture.CollectParameterOIDs())
	// The last one: it fails while row_security is off, for who may be refused rows, and then it is not used.
	return wire.AppendParse(dst, c.named(statementMark), capture.MarkStatement, capture.MarkParameterOIDs())
}

// binaryFormat asks for all parameters and results in binary.
var binaryFormat = []int16{1}

// AppendCollect adds the collect step, without Sync.
func (c Collector) AppendCollect(dst []byte, slot uint32, incarnation, seq uint64, anyway bool) []byte {
	dst = wire.AppendBind(dst, "", c.named(statementFire), nil, nil, nil)
	dst = wire.AppendExecute(dst, "", 0)
	return c.run(dst, statementCollect, slot, incarnation, seq, anyway)
}

// AppendAhead is AppendCollect without firing what is deferred.
func (c Collector) AppendAhead(dst []byte, slot uint32, incarnation, seq uint64, anyway bool) []byte {
	return c.run(dst, statementAhead, slot, incarnation, seq, anyway)
}

func (c Collector) run(dst []byte, statement string, slot uint32, incarnation, seq uint64, anyway bool) []byte {
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
	dst = wire.AppendBind(dst, "", c.named(statement), binaryFormat, params, binaryFormat)
	return wire.AppendExecute(dst, "", 0)
}

// InsideMessage reads what a transaction of a procedure's says to the session.
func (c Collector) InsideMessage(message string) (conversation, kind, rest string, ok bool) {
	return capture.InsideMessage(message, c.secret)
}

// ReadRecord reads a row that it says.
func (Collector) ReadRecord(text string) ([][]byte, error) { return capture.ReadRecord(text) }

// InsideCommand is the collect step as a command for such a transaction.
func (c Collector) InsideCommand(slot uint32, incarnation, seq uint64) string {
	return capture.InsideCommand(int64(c.token), int32(slot), incarnation, seq)
}

// AskFollowCommand is AppendAskFollow as such a command.
func (c Collector) AskFollowCommand() string {
	return capture.PrivilegedCommand(capture.FollowQuery(), c.secret, true)
}

// FollowCommand is AppendFollow as such a command.
func (c Collector) FollowCommand(answer []byte) (string, error) {
	var state capture.State
	if err := json.Unmarshal(answer, &state); err != nil {
		return "", fmt.Errorf("collect: %w", err)
	}
	command, err := capture.Follow(state)
	return capture.PrivilegedCommand(command, c.secret, false), err
}

// AppendMark marks a transaction of direct statements alone.
func (c Collector) AppendMark(dst []byte, slot uint32, incarnation, seq uint64) []byte {
	dst = wire.AppendBind(dst, "", c.named(statementMark), binaryFormat, [][]byte{
		binary.BigEndian.AppendUint32(nil, slot),
		binary.BigEndian.AppendUint64(nil, incarnation),
		binary.BigEndian.AppendUint64(nil, seq),
		[]byte(c.proof),
	}, nil)
	return wire.AppendExecute(dst, "", 0)
}

// AppendPeek asks for what was captured so far.
func (c Collector) AppendPeek(dst []byte) []byte {
	dst = wire.AppendBind(dst, "", c.named(statementPeek), binaryFormat,
		[][]byte{binary.BigEndian.AppendUint64(nil, c.token)}, binaryFormat)
	return wire.AppendExecute(dst, "", 0)
}

// privileged runs a command of ours as a superuser in the client's transaction.
func (c Collector) privileged(dst []byte, command string, data []byte, asks bool) []byte {
	flag := []byte{0}
	if asks {
		flag[0] = 1
	}
	dst = wire.AppendBind(dst, "", c.named(statementDo), binaryFormat,
		[][]byte{capture.Proof(command, c.secret), []byte(command), data, flag}, binaryFormat)
	return wire.AppendExecute(dst, "", 0)
}

// AppendFreeze puts a writeset in place of what was captured so far.
func (c Collector) AppendFreeze(dst []byte, ws *writeset.Writeset) []byte {
	return c.privileged(dst, capture.FreezeCommand, ws.Append(nil), false)
}

// AppendNote notes a definition that fires no event trigger.
func (c Collector) AppendNote(dst []byte, d session.Definition) ([]byte, error) {
	data, err := json.Marshal(definition(d))
	return c.privileged(dst, capture.NoteCommand, data, false), err
}

func definition(d session.Definition) capture.Definition {
	out := capture.Definition{SQL: d.SQL, Settings: map[string]string{}}
	if d.Steady {
		out.Tag = capture.SteadyTag
	} else { // it is about roles, of which some own large objects
		out.Dropped = [][2]string{{capture.SchemaName, capture.LargeName}}
	}
	for _, s := range d.Settings {
		if s.Name == session.RoleSetting {
			out.Role = s.Value
		} else {
			out.Settings[s.Name] = s.Value
		}
	}
	return out
}

// Emptied is the table that a step empties instead, as it is written in SQL; empty if it is a definition.
func Emptied(step []byte) (string, error) {
	var d capture.Definition
	if err := json.Unmarshal(step, &d); err != nil {
		return "", fmt.Errorf("collect: a definition in the log cannot be read: %w", err)
	}
	if len(d.Emptied) == 0 {
		return "", nil
	}
	return capture.Quote(d.Emptied[0][0]) + "." + capture.Quote(d.Emptied[0][1]), nil
}

// Definition reads a step's definition.
func Definition(step []byte) (session.Definition, error) {
	var d capture.Definition
	if err := json.Unmarshal(step, &d); err != nil {
		return session.Definition{}, fmt.Errorf("collect: a definition in the log cannot be read: %w", err)
	}
	out := session.Definition{SQL: d.SQL, Settings: []session.Setting{{Name: session.RoleSetting, Value: d.Role}}}
	for _, name := range capture.CarriedSettings {
		if v, ok := d.Settings[name]; ok {
			out.Settings = append(out.Settings, session.Setting{Name: name, Value: v})
		}
	}
	return out, nil
}

// AppendAskFollow asks what must be done about noted definitions; AppendFollow takes the only value of
// the answer and does it.
func (c Collector) AppendAskFollow(dst []byte) []byte {
	return c.privileged(dst, capture.FollowQuery(), nil, true)
}

// AppendFollow takes the only value of the answer to AppendAskFollow. It fails with a *wire.SQLError for
// what cannot be replicated.
func (c Collector) AppendFollow(dst, answer []byte) ([]byte, error) {
	var state capture.State
	if err := json.Unmarshal(answer, &state); err != nil {
		return nil, fmt.Errorf("collect: %w", err)
	}
	command, err := capture.Follow(state)
	return c.privileged(dst, command, nil, false), err
}

// Carried is capture.CarriedSettings.
func (Collector) Carried() []string { return capture.CarriedSettings }

// Catalog is another value after every definition.
func (c Collector) Catalog() any { return c.tables() }

// Code reports whether there are functions of clients'.
func (c Collector) Code() bool { return c.tables().Code() }

// View is session.Facts's.
func (c Collector) View(name string) bool { return c.tables().View(name) }

// EventTriggers reports whether the database has event triggers of users.
func (c Collector) EventTriggers() bool { return c.tables().EventTriggers() }

// Mark is capture.MarkStart.
func (Collector) Mark() string { return capture.MarkStart }

// Unkeyed is catalog.Tables.Unkeyed.
func (c Collector) Unkeyed(x *semantics.Compared) bool {
	return c.tables().Unkeyed(x.Schema, x.Table, x.Columns)
}

// Piecewise is catalog.Tables.Piecewise.
func (c Collector) Piecewise(schema, table string) bool { return c.tables().Piecewise(schema, table) }

// BulkMark is capture.BulkMark.
func (Collector) BulkMark() string { return capture.BulkMark }

// AskDirect asks for the table a direct statement would change.
func (Collector) AskDirect(d *semantics.Direct) string {
	return capture.DirectSQL(d.Relation, map[semantics.Verb]string{semantics.Insert: "INSERT",
		semantics.Update: "UPDATE", semantics.Delete: "DELETE"}[d.Verb], d.Calls)
}

// steady reports whether a statement's strings mean the same whenever it is prepared.
func steady(d *semantics.Direct, t *capture.TableDesc) bool {
	columns := append(append(slices.Clone(d.Columns), d.Sets...), d.Inserts...)
	if d.Verb == semantics.Insert && d.Inserts == nil {
		columns = nil
	} else if columns == nil {
		columns = []string{}
	}
	return !d.Clock && t.Steady(columns, d.Casts, d.Types)
}

// Direct makes a statement direct on the table that the session names; the table itself is known
// from the catalog alone.
func (c Collector) Direct(d *semantics.Direct, answer [][]byte) (session.Rewritten, bool) {
	if len(answer) != 6 || string(answer[2]) != "t" {
		return nil, false
	}
	tables := c.tables()
	t := tables.Capture(string(answer[0]), string(answer[1]))
	if t == nil || d.Strings && !steady(d, t) || d.Literals &&
		(t.Intervals() || d.Verb != semantics.Insert && !t.FindsOne(semantics.Pinned(d.Text))) {
		return nil, false
	}
	op := map[semantics.Verb]writeset.Op{semantics.Insert: writeset.OpInsert, semantics.Update: writeset.OpUpdate,
		semantics.Delete: writeset.OpDelete}[d.Verb]
	how, ok := t.Direct(op, d.Alias, d.Sets, d.Columns, tables.Code())
	if !ok {
		return nil, false
	}
	r := rewritten{how: how, sql: how.SQL(d.Text, d.Returns), oid: t.OID, schema: t.Schema, name: t.Name, verb: d.Verb}
	if string(answer[3]) == "t" {
		r.adding, r.blind = addingOf(d, t), blindOf(d, t, answer[4], answer[5])
	}
	return r, true
}

// rewritten is a direct statement as the session wants it.
type rewritten struct {
	how    *capture.Direct
	sql    string
	oid    uint32
	schema string
	name   string
	verb   semantics.Verb
	adding *adding // nil if it does something else
	blind  *blind  // nil if it has to see what it changes
}

func (r rewritten) SQL() string { return r.sql }

func (rewritten) Columns() int { return capture.DirectColumns }

func (r rewritten) Read(values [][]byte) (session.Returned, error) {
	row, err := r.how.Read(values)
	return &row, err
}

// Decode reads what was collected. What is frozen holds what was returned.
func (Collector) Decode(rows [][][]byte, returned []session.Returned) (session.Collected, error) {
	c := &collection{capture.Collector{Settle: settle}}
	if len(returned) > 0 && capture.Frozen(rows) {
		returned = nil
	}
	for _, r := range returned {
		if err := c.AddReturned(r.(*capture.Returned)); err != nil {
			return nil, toldApart(err)
		}
	}
	for _, r := range rows {
		err := toldApart(c.AddBinary(r))
		if errors.Is(err, capture.ErrEntangled) {
			return nil, wire.Errorf(wire.CodeFeatureNotSupported,
				"a function changed rows more than once and then the schema").
				WithHint("Run the statements one by one.")
		}
		if errors.Is(err, semantics.ErrFills) {
			return nil, wire.Errorf(wire.CodeFeatureNotSupported,
				"ALTER TABLE … ADD COLUMN would fill existing rows differently at each member").
				WithDetail("%s", err).WithHint("Add the column without default, set the default with ALTER COLUMN, " +
				"and UPDATE the rows.")
		}
		if err != nil {
			return nil, err
		}
	}
	return c, nil
}

// settle words an ALTER TABLE that has filled columns here so that it gives the same elsewhere, and refuses what cannot
// be had by the text of a definition.
func settle(d *capture.Definition) (err error) {
	if r, refused := semantics.RefusedInside(d.SQL); refused {
		return wire.Errorf(r.Code, "%s", r.Message).WithHint("%s", r.Hint)
	}
	if d.Rewritten {
		return semantics.Refills(d.SQL)
	}
	if d.Filled == nil || !semantics.Fills(d.SQL) {
		return nil
	}
	if d.Settings["standard_conforming_strings"] == "off" {
		return fmt.Errorf("%w: standard_conforming_strings is off", semantics.ErrFills)
	}
	d.SQL, err = semantics.Filled(d.SQL, d.Filled)
	return err
}

// collection is a capture.Collector as the session wants it.
type collection struct{ capture.Collector }

func (c *collection) Rereads() ([]session.Reread, error) {
	var out []session.Reread
	queries, err := c.Collector.Rereads()
	for _, r := range queries {
		out = append(out, reread{r})
	}
	return out, toldApart(err)
}

func (c *collection) Writeset() (*writeset.Writeset, error) {
	w, err := c.Collector.Writeset()
	return w, toldApart(err)
}

// toldApart is err, which for a client is an error of its own if rows cannot be told apart.
func toldApart(err error) error {
	var e *capture.Collision
	if !errors.As(err, &e) {
		return err
	}
	told := wire.Errorf(wire.CodeFeatureNotSupported, "two rows of table %q cannot be changed in one transaction",
		e.Table.Name).
		WithDetail("The hashes by which Tutti tells rows apart are equal for the keys (%s) and (%s).", e.Keys[0],
			e.Keys[1]).
		WithHint("Change them in transactions of their own.")
	told.Schema, told.Table = e.Table.Schema, e.Table.Name
	return told
}

// reread is a capture.Reread as the session wants it.
type reread struct{ capture.Reread }

func (r reread) Append(dst []byte) []byte {
	dst = wire.AppendClose(dst, 'S', statementReread)
	dst = wire.AppendParse(dst, statementReread, r.SQL, []uint32{r.ParameterOID})
	dst = wire.AppendBind(dst, "", statementReread, []int16{int16(r.Format)}, [][]byte{r.Parameter}, binaryFormat)
	return wire.AppendExecute(dst, "", 0)
}

func (r reread) Array() (sql string, oid uint32, format int16, value []byte) {
	return capture.ArraySQL, r.ParameterOID, int16(r.Format), r.Parameter
}

func (r reread) Command(array, typ string) string {
	return capture.RereadCommand(r.Reread, array, typ)
}

func (c *collection) Complete(i int, rows [][][]byte) error {
	for _, r := range rows {
		if err := c.AddFinal(i, r); err != nil {
			return toldApart(err)
		}
	}
	return nil
}

// Reach tells what a statement may do that its transaction does not show.
func (c Collector) Reach(sql string) session.Reach { return session.Reach(c.tables().Reach(sql)) }
