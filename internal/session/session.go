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
	// BytesMax bounds what a transaction may change. Zero means RowByRowMax, which bounds what of it comes row by row.
	BytesMax int
	// Room is an empty slice with room for so many bytes of what was changed. Nil: it is memory.
	Room func(bytes int) []byte
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

	results proto.Results // of a statement that may be run again
	serving bool          // see Control.Serves

	// the rooms that its loop asks, see rooms.go
	backend   backend
	texts     texts
	levels    levels
	listener  listener
	advisory  advisory
	named     named
	batch     batch
	forms     forms
	locks     locks
	reads     reads
	txn       txn.Machine
	tx        transaction
	block     block
	relaying  relaying
	buffer    buffer
	plain     plain
	blocks    blocks
	executing executing
	controls  controls
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
	if o.BytesMax == 0 {
		o.BytesMax = RowByRowMax
	}
	if o.Room == nil {
		o.Room = func(n int) []byte { return make([]byte, 0, n) }
	}
	if o.CacheMax == 0 {
		o.CacheMax = 512
	}
	s := &Session{
		o: o, in: o.Client, out: o.ClientOut,
	}
	w := &within{}
	readers(s, w, o)
	transactions(s, w, o)
	writers(s, w, o)
	statements(s, w, o)
	return s
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
	if fate := s.o.Host.Fate(); fate != nil {
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
	if f.Type != wire.TypeTerminate {
		s.serves(true)
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

// serves tells the node when it begins or ends to be so, see Control.Serves.
func (s *Session) serves(on bool) {
	if on != s.serving {
		s.serving = on
		s.o.Host.Serves(on)
	}
}

// ready ends the answer to a Query or Sync.
func (s *Session) ready() error {
	if s.txn.Idle() && !s.txn.Open() {
		warning, err := s.listener.settle()
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
	s.serves(s.txn.Status() != wire.TxIdle)
	if s.out.Full() {
		return s.out.Flush()
	}
	return nil
}
