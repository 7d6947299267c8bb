package session

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/session/proto"
	"github.com/tuttidb/tutti/internal/session/txn"
	"github.com/tuttidb/tutti/internal/wire"
)

// An INSERT, UPDATE or DELETE, prepared or with literals in its text (see literals), that does nothing but change one
// plain table is run in a form that returns what it changes (Collector.Direct), so that nothing has to be captured in
// the database and collected from it. The form is prepared when the statement is about to be run for the
// second time, or before the next transaction if one is open then.

// direct is what a session has of that, for one transaction.
type direct struct {
	backend *backend
	forms   *forms
	results *proto.Results
	large   func() *wire.SQLError // see Order.BeginLarge
	txn     *txn.Machine

	bytesMax int      // of what is returned
	values   [][]byte // room for those of a row
	row      []byte   // and for one of the client's

	wish   string // the setting of tutti.tx it begins with, or goes on with
	now    string // the setting it has
	closed bool   // everything else is captured
	clean  bool   // nothing else can have been captured
	pure   bool   // nothing else was run
	who    string // Who of the last row
	rows   []Returned
	bytes  int
}

const (
	formsMax    = 256
	formTextMax = 4 << 10 // the trigger copies the text for every row
	// firstUserOID is the first type OID that is not PostgreSQL's own: to read a value of such a
	// type may run code.
	firstUserOID = 16384
	formUses     = 2   // the execution that is the first to be direct
	outdatedMax  = 100 // a session whose tables change more often does without
)

// directRun is a request as it is run directly: statements one after another.
type directRun struct {
	frames []byte // for the backend
	parts  []directPart
	at     int  // the part whose answer is being read
	query  bool // it came as a Query
}

// directPart is one execution in it.
type directPart struct {
	form      *form
	parse     []byte // the client's Parse of a name
	unparsed  bool   // the client's Parse without a name: the session answers it
	bind      []byte // the client's Bind
	kept      bool   // bind is the part's own, see delta
	name      string // of the client's statement
	describes bool   // the client asked what it returns
	text      string // the client's, if its literals are parameters
	literals  []semantics.Literal
	limited   bool    // the client asked for some rows only
	formats   []int16 // of the columns that it gets
	directAnswer
}

// directAnswer is what it has returned.
type directAnswer struct {
	count    int // of rows
	rows     []Returned
	captured bool // by the trigger
	parsed   bool // the client's Parse was carried out
	bound    bool // its parameters were taken
}

// setting is the statement that sets tutti.tx as it is wished. Once it is "on" it stays so until the
// transaction ends, because it tells whether something was captured.
func (d *direct) setting() string {
	statement := d.wish
	if statement == "" {
		statement = ownTx
	}
	d.wish, d.now = "", statement
	d.closed = d.closed || d.now == ownTx || d.now == ownTxBulk
	return statement
}

// reopened has a transaction go on as one that is captured, see adjust.
func (d *direct) reopened() {
	d.now, d.closed = "", true
}

// end forgets a transaction.
func (d *direct) end() { d.wish, d.rows, d.who = "", nil, "" }

// begin begins a transaction.
func (d *direct) begin() {
	d.closed, d.clean, d.pure, d.who, d.rows, d.bytes = false, true, true, "", nil, 0
}

// known reports whether all of it can be run directly.
func (d *directRun) known() bool {
	for i := range d.parts {
		p := &d.parts[i]
		if p.form.name == "" || p.form.how == nil {
			return false
		}
		if n := len(p.form.columns); n > 0 && p.formats == nil { // when it is done again the messages are gone
			p.formats, _ = wire.ResultFormats(p.bind, n)
		}
		if p.form.returns() && (p.limited || len(p.formats) != len(p.form.columns)) {
			return false
		}
	}
	return true
}

// description is what the client is told of what it gets.
func (p *directPart) description() wire.Frame {
	if !p.form.returns() {
		return wire.Frame{Type: wire.TypeNoData, Raw: wire.AppendNoData(nil)}
	}
	columns := slices.Clone(p.form.columns)
	for i := range columns {
		columns[i].Format = p.formats[i]
	}
	return wire.Frame{Type: wire.TypeRowDescription, Raw: wire.AppendRowDescription(nil, columns)}
}

// adjust sets tutti.tx anew ahead of the request, if it must.
func (d *direct) adjust() {
	gone := d.now == "" && d.closed // see reopened
	if gone && d.wish != ownTxBulk {
		d.wish = ownTx
	}
	// A savepoint may have taken 'quiet_bulk' back.
	if gone || d.wish == ownTxBulk || d.wish != "" && d.wish != d.now && !d.closed {
		d.backend.out.Append(appendRun(d.backend.out.AvailableBuffer(), d.backend.own(d.setting())))
		d.backend.prefix++
	}
}

// rewind forgets what was answered.
func (d *directRun) rewind() {
	d.at = 0
	for i := range d.parts {
		d.parts[i].directAnswer = directAnswer{}
	}
}

// build makes the frames, from the client's Parse, if there is one, and Bind.
func (d *directRun) build() {
	d.rewind()
	d.frames = d.frames[:0]
	for i := range d.parts {
		p := &d.parts[i]
		d.frames = append(d.frames, p.parse...)
		if p.form.returns() {
			all := slices.Repeat([]int16{1}, p.form.how.Columns())
			d.frames = wire.AppendBindAs(d.frames, p.form.name, p.bind, append(all, p.formats...)...)
		} else {
			d.frames = wire.AppendBindAs(d.frames, p.form.name, p.bind, 1)
		}
		d.frames = wire.AppendExecute(d.frames, "", 0)
		d.frames = wire.AppendClose(d.frames, 'P', "") // the client's would have no rows
	}
	d.frames = wire.AppendSync(d.frames)
}

// part is the one whose answer is being read.
func (d *directRun) part() *directPart { return &d.parts[min(d.at, len(d.parts)-1)] }

// tellParsed answers a Parse without a name ahead of what follows it.
func (p *directPart) tellParsed(r *reply, emit func(wire.Frame) error) error {
	if !p.unparsed || p.parsed {
		return nil
	}
	p.parsed, r.unparsed = true, true
	r.parsed++
	r.done++
	return emit(wire.Frame{Type: wire.TypeParseComplete, Raw: wire.AppendParseComplete(nil)})
}

// failedDirect makes an error of a direct statement one of the client's.
func (p *directPart) failedDirect(d *direct, r *reply, e *wire.ErrorFields) (err error) {
	if !p.asLiteral(e) && (p.parse == nil || p.parsed) && d.forms.expired(*e) {
		*e = errForgotten(outdatedStatement).ErrorFields
	} else {
		err = p.tellParsed(r, d.results.Emit)
	}
	e.Message = strings.ReplaceAll(e.Message, p.form.name, p.name)
	return err
}

// counted ends the answer of a part: it must have returned as many rows as it says to have changed.
func (d *direct) counted(run *directRun, f wire.Frame) error {
	p := run.part()
	run.at++
	tag, err := wire.DecodeCommandComplete(f.Body())
	if err == nil && tag[strings.LastIndexByte(tag, ' ')+1:] != strconv.Itoa(p.count) {
		d.txn.Condemn(errForgotten(fmt.Sprintf("a statement returned %d rows and says %s", p.count, tag)))
		d.forms.off = true
	}
	return err
}

// takeOf takes what the client does not get of an answer to a direct run, and makes of the rest what it gets.
func (d *direct) takeOf(r *reply, f *wire.Frame) (taken bool, err error) {
	run := r.taking
	switch f.Type {
	case wire.TypeDataRow:
		if err := d.announce(run); err != nil {
			return true, err
		}
		return true, d.takeRow(run, *f)
	case wire.TypeCloseComplete:
		return true, nil // of our Close
	case wire.TypeParseComplete:
		run.part().parsed = true
	case wire.TypeBindComplete:
		run.part().bound = true
		return run.query, run.part().tellParsed(r, d.results.Emit)
	case wire.TypeCommandComplete:
		if err := d.announce(run); err != nil {
			return true, err
		}
		return false, d.counted(run, *f)
	}
	return false, nil
}

// announce tells the client of a Query what it gets: once there is something, and the statement cannot fail any more.
func (d *direct) announce(run *directRun) error {
	if p := run.part(); run.query && p.form.returns() && p.count == 0 {
		return d.results.Emit(p.description())
	}
	return nil
}

// takeRow keeps a row that a direct statement has returned, and passes the client's columns on.
func (d *direct) takeRow(run *directRun, f wire.Frame) error {
	p := run.part()
	p.count++
	values, err := wire.DecodeDataRow(d.values[:0], f.Body())
	if err != nil {
		return err
	}
	own := max(0, len(values)-len(p.form.columns))
	d.keepRow(p, values[:own])
	if p.form.returns() {
		d.row = wire.AppendDataRow(d.row[:0], values[own:])
		err = d.results.Emit(wire.Frame{Type: wire.TypeDataRow, Raw: d.row})
	}
	clear(values) // they alias the frame
	if d.values = values; cap(d.row) > largeBytes {
		d.row = nil
	}
	return err
}

// keepRow keeps the values of a row that are for us.
func (d *direct) keepRow(p *directPart, values [][]byte) {
	if d.txn.Reason() != nil { // it is lost, and what it has changed as well
		return
	}
	row, err := p.form.how.Read(values)
	if err != nil { // the text means something else by now
		d.txn.Condemn(errForgotten(err.Error()))
		d.forms.off = true
		return
	}
	if row.Forged() {
		d.txn.Condemn(errForged())
		return
	}
	if row.Captured() {
		p.captured = true
		return
	}
	before := d.bytes
	d.bytes += row.Size()
	if d.bytes > d.bytesMax {
		p.rows = nil // told at COMMIT
		return
	}
	if before <= largeBytes && d.bytes > largeBytes {
		if refused := d.large(); refused != nil {
			d.txn.Condemn(refused)
			p.rows = nil
			return
		}
	}
	p.rows = append(p.rows, row)
}

// noteDirect notes what a request that was carried out means for the transaction.
func (b *buffer) noteDirect(r *request) {
	d := b.direct
	switch {
	case r.prepares:
	case !r.way.chosen:
		d.clean, d.pure = false, false
		d.closed = d.closed || !r.does.harmless() || b.texts.code && !b.texts.still(r)
	default:
		for i := range r.way.direct.parts {
			p := &r.way.direct.parts[i]
			d.rows = append(d.rows, p.rows...)
			b.noteFound(p)
			b.noteSight(p)
			if n := len(p.rows); n > 0 {
				d.who = p.rows[n-1].Who()
				p.form.who = d.who
				d.clean = p.rows[n-1].Alone(b.levels.snapshot())
				b.forms.tell(p.form)
			}
			if p.captured {
				d.closed, d.clean = true, false
			}
		}
	}
}
