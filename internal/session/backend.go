package session

import (
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/wire"
)

// errBackend marks that the backend's connection broke or is out of step.
var errBackend = errors.New("session: the backend's connection broke")

// backend is the connection to the session's own PostgreSQL process, with what the session asks it for itself.
type backend struct {
	in       *wire.Reader
	out      *wire.Writer
	secret   string                   // ends the names of the session's own statements
	prepares func(dst []byte) []byte  // adds Parse messages for statements besides the session's own
	hears    func(f wire.Frame) error // takes what the backend says besides answers
	began    func()                   // is told that what went ahead of a request was carried out
	limits   limits                   // of rows that are gathered

	prefix int // statements of ours that go ahead of the next request, their answers unread
	// skippable: the Query that ends what is sent is skipped if one of so many statements that go ahead of it fails
	skippable int
	fatal     *wire.SQLError // its last words
	lost      bool           // it has forgotten our statements; see recover
}

// close has the backend close what is to be parsed again, if there is something: closeFirst's.
func (b *backend) close(closes []byte) error {
	if closes == nil {
		return nil
	}
	b.out.Append(closes)
	_, err := b.quiet()
	return err
}

// quiet sends what is gathered for the backend and reads up to ReadyForQuery, passing
// nothing on but notices and parameter changes.
func (b *backend) quiet() (reply, error) {
	r, _, err := b.internal(false)
	return r, err
}

// query runs a query of Tutti's own and returns its rows in text form. It uses names of its
// own because a simple Query would destroy the client's unnamed statement.
// A cancel may hit it that was meant for the client's statement before; then it is run again.
func (b *backend) query(sql string) ([][][]byte, error) {
	for try := 1; ; try++ {
		r, rows, err := b.ask(sql)
		switch {
		case err != nil || r.failed == nil:
			return rows, err
		case r.failed.Code == wire.CodeQueryCanceled && r.status == wire.TxIdle && try < queryTries:
			continue
		}
		return nil, fmt.Errorf("session: %s: %w", sql, failureOf(r))
	}
}

// queryTries is how often; a client's statement_timeout looks like a cancel.
const queryTries = 10

// ask is query for what may fail. It gives the rows of all queries.
func (b *backend) ask(sql ...string) (reply, [][][]byte, error) {
	dst, name := b.out.AvailableBuffer(), b.own(ownQuery)
	for _, q := range sql {
		dst = wire.AppendClose(dst, 'S', name)
		dst = appendRun(wire.AppendParse(dst, name, q, nil), name)
	}
	b.out.Append(wire.AppendSync(dst))
	return b.internal(true)
}

// inUTF8 asks for a text, in a form that client_encoding does not touch.
func inUTF8(text string) string {
	return "pg_catalog.encode(pg_catalog.convert_to(" + text + ", 'UTF8'), 'hex')"
}

// translate gives a text that is in the client's encoding in UTF-8.
func (b *backend) translate(text string) (string, *wire.SQLError, error) {
	name := b.own(ownQuery)
	dst := wire.AppendClose(b.out.AvailableBuffer(), 'S', name)
	dst = wire.AppendParse(dst, name, "SELECT "+inUTF8("$1::pg_catalog.text"), nil)
	dst = wire.AppendBind(dst, "", name, nil, [][]byte{[]byte(text)}, nil)
	b.out.Append(wire.AppendSync(wire.AppendExecute(dst, "", 0)))
	r, rows, err := b.internal(true)
	if err != nil || r.failed != nil {
		return "", failureOf(r), err
	}
	out, err := hex.DecodeString(string(rows[0][0]))
	return string(out), nil, err
}

// parse has the backend parse one statement, and do nothing with it.
func (b *backend) parse(sql string) (reply, error) {
	name := b.own(ownQuery)
	dst := wire.AppendClose(b.out.AvailableBuffer(), 'S', name)
	b.out.Append(wire.AppendSync(wire.AppendParse(dst, name, sql, nil)))
	r, _, err := b.internal(false)
	return r, err
}

// internal is quiet that also gathers rows, copied. Of more than a transaction may change nothing is kept, and it has
// failed.
func (b *backend) internal(want bool) (r reply, rows [][][]byte, err error) {
	if err := b.flush(); err != nil {
		return r, nil, err
	}
	if b.prefix > 0 {
		if r.failed, err = b.prefixed(); err != nil {
			return r, nil, err
		}
	}
	got, ended := gathered{limits: &b.limits}, 0
	for {
		f, err := b.next()
		if err != nil {
			return r, nil, err
		}
		switch {
		case f.Type == wire.TypeReadyForQuery:
			if got.refused != nil && r.failed == nil {
				r.failed = &got.refused.ErrorFields
			}
			r.status, err = wire.DecodeReadyForQuery(f.Body())
			return r, got.rows, err
		case f.Type != wire.TypeDataRow:
			err = b.answer(f, &r, &ended)
		case want:
			err = got.read(f.Body())
		}
		if err != nil {
			return r, nil, err
		}
	}
}

// next reads one frame.
func (b *backend) next() (wire.Frame, error) {
	f, err := b.in.Next()
	if err != nil {
		return f, fmt.Errorf("%w: %w", errBackend, err)
	}
	return f, nil
}

// answer takes a frame that is neither a row nor the last one; so many statements have ended before it.
func (b *backend) answer(f wire.Frame, r *reply, ended *int) error {
	switch f.Type {
	case wire.TypeErrorResponse:
		e, err := wire.DecodeErrorFields(f.Body())
		if err != nil {
			return err
		}
		if r.failed == nil {
			r.failed = &e
		}
		b.noteFatal(e)
		if *ended < b.skippable { // PostgreSQL skips it, up to a Sync, which a Query is not
			b.out.Append(wire.AppendSync(b.out.AvailableBuffer()))
			return b.flush()
		}
	case wire.TypeRowDescription:
		r.described = slices.Clone(f.Raw)
	case wire.TypeParameterStatus, wire.TypeNotificationResponse:
		return b.hears(f)
	case wire.TypeCommandComplete:
		*ended++
		tag, err := wire.DecodeCommandComplete(f.Body())
		r.tag = tag
		return err
	case wire.TypeNoticeResponse:
		r.noticed = true
		return b.hears(f)
	}
	return nil
}

// prefixed reads the answers to our own BEGIN, or what else goes ahead of a request. If it
// failed, PostgreSQL skips that request, up to a Sync.
func (b *backend) prefixed() (*wire.ErrorFields, error) {
	defer func() { b.prefix = 0 }()
	for b.prefix > 0 {
		f, err := b.next()
		if err != nil {
			return nil, err
		}
		switch f.Type {
		case wire.TypeCommandComplete:
			b.prefix--
		case wire.TypeErrorResponse:
			e, err := wire.DecodeErrorFields(f.Body())
			b.noteFatal(e)
			b.lost = b.lost || e.Code == wire.CodeInvalidStatementName // see recover
			return &e, err
		case wire.TypeParameterStatus, wire.TypeNotificationResponse:
			if err := b.hears(f); err != nil {
				return nil, err
			}
		case wire.TypeNoticeResponse:
			if err := b.hears(f); err != nil {
				return nil, err
			}
		}
	}
	b.began()
	return nil, nil
}

// noteFatal remembers the backend's last words.
func (b *backend) noteFatal(e wire.ErrorFields) {
	if e.SeverityUnlocalized == wire.SeverityFatal || e.SeverityUnlocalized == wire.SeverityPanic {
		b.fatal = &wire.SQLError{ErrorFields: e}
	}
}

func (b *backend) flush() error {
	err := b.out.Flush()
	if err == nil {
		return nil
	}
	for f, end := b.in.Next(); end == nil; f, end = b.in.Next() { // the connection is closed: what it said before that
		if f.Type != wire.TypeErrorResponse {
			continue
		}
		if e, wrong := wire.DecodeErrorFields(f.Body()); wrong == nil {
			b.noteFatal(e)
		}
	}
	return fmt.Errorf("%w: %w", errBackend, err)
}

// prepare makes the backend know the statements above and the collector's.
func (b *backend) prepare() {
	dst := b.out.AvailableBuffer()
	for _, p := range [...][2]string{
		{ownBegin, "BEGIN"},
		{ownBeginRC, "BEGIN ISOLATION LEVEL READ COMMITTED"},
		{ownTx, "SET LOCAL tutti.tx = 'on'"},
		{ownTxDirect, "SET LOCAL tutti.tx = 'quiet_direct'"},
		{ownTxBulk, "SET LOCAL tutti.tx = 'quiet_bulk'"},
		{ownReadOnly, "SET transaction_read_only = on"},
		{ownRollback, "ROLLBACK"},
		{ownSnapshot, "SELECT pg_catalog.current_setting('default_transaction_isolation')"},
		{ownPrompt, "SET TRANSACTION NOT DEFERRABLE"},
		{ownFail, "DO $$ BEGIN RAISE EXCEPTION 'refused by Tutti'; END $$"},
	} {
		name := b.own(p[0])
		dst = wire.AppendParse(wire.AppendClose(dst, 'S', name), name, p[1], nil)
	}
	b.out.Append(wire.AppendSync(b.prepares(dst)))
}

// own is the name that the backend knows one of the statements above by: nobody can guess it (capture).
func (b *backend) own(name string) string { return name + b.secret }

// sendOwn appends one of the statements above.
func (b *backend) sendOwn(name string) {
	b.out.Append(wire.AppendSync(appendRun(b.out.AvailableBuffer(), b.own(name))))
}

// sendCommit appends the COMMIT, behind so many statements, a mark and what is added, that go ahead of it in the same
// go. As a Query it removes the statement without a name. Behind what goes ahead of a request it is prepared for that
// moment alone: a function could run it with EXECUTE, and commit what nobody has ordered.
func (b *backend) sendCommit(ahead int) {
	if b.prefix == 0 {
		b.out.Append(wire.AppendQuery(b.out.AvailableBuffer(), "COMMIT"))
		b.skippable = ahead
		return
	}
	name := b.own(ownCommit)
	dst := wire.AppendClose(b.out.AvailableBuffer(), 'S', name)
	dst = wire.AppendParse(dst, name, "COMMIT", nil)
	dst = wire.AppendClose(appendRun(dst, name), 'S', name)
	b.out.Append(wire.AppendSync(dst))
}

// beginStatements is how many statements sendBegin appends.
const beginStatements = 2

// sendBegin appends the BEGIN of a transaction with the given modes. It is sent with what
// follows, without a Sync of its own; see prefixed.
func (b *backend) sendBegin(m semantics.Modes, setting string) {
	dst := b.out.AvailableBuffer()
	switch {
	case m == semantics.Modes{}:
		dst = appendRun(dst, b.own(ownBegin))
	case m == semantics.Modes{Isolation: semantics.ReadCommitted}:
		dst = appendRun(dst, b.own(ownBeginRC))
	default:
		name := b.own(ownBeginAs)
		dst = wire.AppendClose(dst, 'S', name)
		dst = wire.AppendParse(dst, name, "BEGIN"+m.SQL(), nil)
		dst = appendRun(dst, name)
	}
	b.out.Append(appendRun(dst, b.own(setting)))
}

// guard puts the statement ahead of the request.
func (b *backend) guard() {
	b.out.Append(appendRun(b.out.AvailableBuffer(), b.own(ownReadOnly)))
	b.prefix = 1
}

// value asks for one value; c.failed says that PostgreSQL refused.
func (b *backend) value(frames []byte, c *collected) ([]byte, error) {
	b.out.Append(wire.AppendSync(frames))
	r, answer, err := b.internal(true)
	switch {
	case err != nil:
		return nil, err
	case r.failed != nil:
		c.failed = &wire.SQLError{ErrorFields: *r.failed}
		return nil, nil
	case len(answer) != 1 || len(answer[0]) != 1:
		return nil, fmt.Errorf("session: what is locked was not answered")
	}
	return answer[0][0], nil
}
