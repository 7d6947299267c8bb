package session

import (
	"errors"
	"io"

	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/session/plan"
	"github.com/tuttidb/tutti/internal/session/proto"
	"github.com/tuttidb/tutti/internal/session/txn"
	"github.com/tuttidb/tutti/internal/wire"
)

// Options configures a session.
type Options struct {
	Client    *wire.Reader
	ClientOut *wire.Writer
	Server    *wire.Reader
	ServerOut *wire.Writer
	Host      Host
	Collector Collector
	// Planned, if it is set, is told how a statement is carried out, at each try.
	Planned func(plan.Plan)
	// Direct and ReadThrough find out what a text is. If they are not set, package semantics does.
	Direct      func(sql string) (semantics.Direct, bool)
	ReadThrough func(sql string) (semantics.Glance, bool)
	// RetriesMax bounds how often a statement of its own transaction is run again after
	// it lost. Zero means 20.
	RetriesMax int
	// HoldBytesMax bounds the results held back while a statement may still have to be run
	// again. Zero means 256 KiB.
	HoldBytesMax int
	// ReturnedBytesMax bounds what direct statements of a transaction may return. Zero means
	// 256 MiB.
	ReturnedBytesMax int
	// CacheMax bounds the classified texts remembered. Zero means 512.
	CacheMax int
	// Strict has a move of the transaction that none may make panic, as in tests. Without it the session ends.
	Strict bool
}

// Session is one client. Not safe for concurrent use.
type Session struct {
	o   Options
	in  *wire.Reader // from the client
	out *wire.Writer // to the client

	backend backend
	host    Host

	texts  texts
	levels levels
	ears   ears

	advisory advisory

	// the transaction
	txn        txn.Machine
	tx         transaction
	block      block
	relaying   relaying
	habits     habits
	forms      forms
	unnamed    unnamed
	direct     direct
	schema     schema
	collecting collecting
	locks      locks
	tableLocks tableLocks
	reads      reads
	retry      retrying
	later      later
	buffer     buffer
	sight      sight
	planner    planner
	procedures procedures

	results proto.Results // of a statement that may be run again

	// extended protocol
	named named
	batch batch
}

// New returns a session whose backend is logged in and idle.
func New(o Options) *Session {
	if o.Planned == nil {
		o.Planned = func(plan.Plan) {}
	}
	if o.Direct == nil {
		o.Direct = semantics.DirectOf
	}
	if o.ReadThrough == nil {
		o.ReadThrough = semantics.GlanceOf
	}
	if o.RetriesMax == 0 {
		o.RetriesMax = 20
	}
	if o.HoldBytesMax == 0 {
		o.HoldBytesMax = 256 << 10
	}
	if o.ReturnedBytesMax == 0 {
		o.ReturnedBytesMax = 256 << 20
	}
	if o.CacheMax == 0 {
		o.CacheMax = 512
	}
	s := &Session{
		o: o, in: o.Client, out: o.ClientOut,
		host: o.Host,
	}
	lower(s, o)
	upper(s, o)
	return s
}

// lower makes what ends no transaction: it is told what the client is told, and what the backend has.
func lower(s *Session, o Options) {
	s.backend = backend{
		in: o.Server, out: o.ServerOut, secret: o.Collector.Secret(), prepares: o.Collector.AppendPrepare,
		hears: s.relaying.hears, began: s.txn.Began,
		limits: limits{most: o.ReturnedBytesMax, large: o.Host.BeginLarge, exceeded: s.collecting.tooMuch},
	}
	s.texts = texts{facts: o.Collector.Facts, reserved: o.Collector.Marks, cache: newCache(o.CacheMax)}
	s.levels = levels{backend: &s.backend, txn: &s.txn}
	s.advisory = advisory{backend: &s.backend, host: o.Host.Advisory, txn: &s.txn}
	s.ears = ears{backend: &s.backend, channels: o.Host.Channels, control: o.Host.Control}
	s.locks = locks{
		backend: &s.backend, locking: o.Collector.Locking, intents: o.Host.Intents,
		off: func() bool { return s.schema.noted || s.texts.escape },
	}
	s.reads = reads{
		backend: &s.backend, pinning: o.Collector.Pinning, facts: o.Collector.Facts,
		serial: s.levels.serializable, alike: s.texts.plainTexts,
	}
	s.collecting = collecting{
		backend: &s.backend, captures: o.Collector.Captures, locking: o.Collector.Locking, bytesMax: o.ReturnedBytesMax,
		host: collectingHost{o.Host.Control, o.Host.Order, o.Host.Snapshots, o.Host.Main},
		txn:  &s.txn, levels: &s.levels, direct: &s.direct, schema: &s.schema, locks: &s.locks, reads: &s.reads,
	}
}

// upper makes what opens, ends and repeats transactions, of what lower has made.
func upper(s *Session, o Options) {
	s.tx = transaction{
		backend: &s.backend, steps: transactionSteps{o.Collector.Captures, o.Collector.Steps},
		host: transactionHost{o.Host.Control, o.Host.Order, o.Host.Snapshots, o.Host.Deferred, o.Host.Deferrable},
		txn:  &s.txn, levels: &s.levels, collecting: &s.collecting, forms: &s.forms, unnamed: &s.unnamed,
		direct: &s.direct, schema: &s.schema,
		locks: &s.locks, reads: &s.reads, later: &s.later, sight: &s.sight,
	}
	s.relaying = relaying{
		backend: &s.backend, in: s.in, out: s.out, results: &s.results,
		host: relayingHost{o.Host.Control, o.Host.Sequences}, facts: o.Collector.Facts,
		txn: &s.txn, tx: &s.tx, texts: &s.texts, sight: &s.sight, forms: &s.forms, unnamed: &s.unnamed,
		direct: &s.direct, schema: &s.schema, locks: &s.locks, advisory: &s.advisory, later: &s.later,
		inside: &s.procedures.inside, commitHere: s.procedures.commitInside,
	}
	s.buffer = buffer{
		later: &s.later, backend: &s.backend, results: &s.results, fail: s.block.fail,
		host: bufferHost{o.Host.Control, o.Host.Order, o.Host.Intents, o.Host.Rows, o.Host.Deferred},
		txn:  &s.txn, tx: &s.tx, levels: &s.levels, texts: &s.texts, sight: &s.sight, forms: &s.forms,
		direct: &s.direct, retry: &s.retry, rewriting: o.Collector.Rewriting, facts: o.Collector.Facts,
		lockable: o.Collector.Lockable, find: o.ReadThrough,
	}
	s.named = named{
		texts: &s.texts, locks: &s.locks, statements: map[string]*prepared{}, portals: map[string]*prepared{},
	}
	s.block = block{
		out: s.out, backend: &s.backend, txn: &s.txn, tx: &s.tx, levels: &s.levels, habits: &s.habits,
		direct: &s.direct, schema: &s.schema, locks: &s.locks, retry: &s.retry, later: &s.later, sight: &s.sight,
		named: &s.named,
	}
	s.procedures = procedures{
		backend: &s.backend, conversing: o.Collector.Conversing, results: &s.results, triesMax: o.RetriesMax,
		host: proceduresHost{o.Host.Control, o.Host.Order, o.Host.Intents, o.Host.Procedures},
		txn:  &s.txn, tx: &s.tx, block: &s.block, levels: &s.levels, collecting: &s.collecting,
		relaying: &s.relaying, schema: &s.schema, advisory: &s.advisory,
	}
	s.tableLocks = tableLocks{
		backend: &s.backend, host: tableLocksHost{o.Host.Control, o.Host.Intents}, txn: &s.txn, tx: &s.tx,
		block: &s.block,
	}
	s.batch = batch{
		reserved: o.Collector.Marks, texts: &s.texts, reads: &s.reads, forms: &s.forms, later: &s.later,
	}
	s.planner = planner{
		backend: &s.backend, txn: &s.txn, texts: &s.texts, levels: &s.levels, advisory: &s.advisory,
		forms: &s.forms, direct: &s.direct, schema: &s.schema, locks: &s.locks, retry: &s.retry, later: &s.later,
		buffer: &s.buffer, sight: &s.sight,
	}
	s.txn.Strict = o.Strict
	s.results = proto.NewResults(o.ClientOut, o.HoldBytesMax,
		func(raw []byte) bool { return s.txn.Active() && s.retry.tell(raw) }, o.Server.Buffered)
	s.retry = retrying{
		control: o.Host.Control, out: s.out, once: s.once, triesMax: o.RetriesMax, tx: &s.tx, later: &s.later,
		unnamed: &s.unnamed,
		backend: &s.backend, txn: &s.txn, levels: &s.levels, schema: &s.schema, advisory: &s.advisory,
	}
	s.retry.end()
	s.forms = forms{
		backend: &s.backend, rewriting: o.Collector.Rewriting, catalogs: o.Collector.Facts, plans: o.Host.Plans,
		find: o.Direct, secret: o.Collector.Secret(), txn: &s.txn, texts: &s.texts, sight: &s.sight,
	}
	s.direct = direct{
		backend: &s.backend, forms: &s.forms, results: &s.results, large: o.Host.BeginLarge, txn: &s.txn,
		texts: &s.texts, sight: &s.sight, bytesMax: o.ReturnedBytesMax,
	}
}

// errTerminate ends Run without error: the client said goodbye.
var errTerminate = errors.New("session: terminated by the client")

// Run serves the client until it leaves (nil), or a connection breaks, or a FATAL error
// was sent (returned). The caller closes both connections; an open backend transaction
// ends with its connection.
func (s *Session) Run() error {
	if err := s.start(); err != nil {
		return err
	}
	if err := s.ready(); err != nil {
		return err
	}
	for {
		err := s.step()
		if broken := s.txn.Broken(); broken != nil && err == nil {
			err = s.block.fail(wire.Fatalf(wire.CodeInternalError, "%v", broken))
		}
		if errors.Is(err, errTerminate) || errors.Is(err, io.EOF) && !errors.Is(err, errBackend) {
			return nil
		}
		if err != nil {
			return s.lastWords(err)
		}
	}
}

// lastWords tells the client why the connection ends.
func (s *Session) lastWords(err error) error {
	if !errors.Is(err, errBackend) {
		return err
	}
	e := s.backend.fatal
	if fate := s.host.Fate(); fate != nil {
		e = fate
	}
	if e == nil {
		e = wire.Fatalf(wire.CodeAdminShutdown, "terminating connection: this member's PostgreSQL closed it").
			WithHint("Connect again, or to another member.")
	}
	s.results.Broken()
	s.out.Append(e.Append(nil))
	return errors.Join(err, s.out.Flush())
}

// start prepares the backend and asks for the session's defaults.
func (s *Session) start() error {
	s.backend.prepare()
	if _, err := s.backend.quiet(); err != nil {
		return err
	}
	rows, err := s.backend.query("SHOW standard_conforming_strings")
	if err != nil {
		return err
	}
	s.texts.noteParameter("standard_conforming_strings", string(rows[0][0]))
	return s.levels.askIsolation()
}

// step handles one frame of the client.
func (s *Session) step() error {
	s.batch.gathering = len(s.batch.messages) > 0
	f, err := s.next()
	s.batch.gathering = false
	if err == nil {
		err = s.overdue()
	}
	if err != nil {
		return err
	}
	switch f.Type {
	case wire.TypeQuery:
		return s.simple(f)
	case wire.TypeParse, wire.TypeBind, wire.TypeDescribe, wire.TypeExecute, wire.TypeClose:
		return s.gather(f)
	case wire.TypeFlush:
		if err := s.process(false); err != nil {
			return err
		}
		return s.out.Flush()
	case wire.TypeSync:
		return s.sync()
	case wire.TypeFunctionCall:
		return s.functionCall(f)
	case wire.TypeTerminate:
		return errTerminate
	}
	return nil // CopyData, CopyDone and CopyFail left over from a failed COPY
}

// next returns the client's next frame, telling the node that the session waits.
func (s *Session) next() (wire.Frame, error) {
	if err := s.leaves(); err != nil {
		return wire.Frame{}, err
	}
	if s.relaying.unread.Raw != nil {
		f := s.relaying.unread
		s.relaying.unread = wire.Frame{}
		return f, nil
	}
	if s.in.Buffered() && !s.tx.ahead.asked {
		f, err := s.in.Next()
		return f, s.relaying.badFrame(err)
	}
	if err := s.out.Flush(); err != nil {
		return wire.Frame{}, err
	}
	return s.wait()
}

func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}

// ready ends the answer to a Query or Sync.
func (s *Session) ready() error {
	if s.txn.Idle() && !s.txn.Open() {
		warning, err := s.ears.settle()
		if err != nil {
			return err
		}
		if warning != nil {
			s.out.Append(wire.AppendNoticeResponse(nil, warning.ErrorFields))
		}
	}
	if s.advisory.used {
		s.advisory.settle()
	}
	s.relaying.late.Tell(s.out, s.txn.Idle())
	s.out.Append(wire.AppendReadyForQuery(s.out.AvailableBuffer(), s.txn.Status()))
	if s.out.Full() {
		return s.out.Flush()
	}
	return nil
}
