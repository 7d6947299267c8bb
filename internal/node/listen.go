package node

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/tuttidb/tutti/internal/capture"
	"github.com/tuttidb/tutti/internal/clients"
	"github.com/tuttidb/tutti/internal/collect"
	"github.com/tuttidb/tutti/internal/database/link"
	"github.com/tuttidb/tutti/internal/flow"
	"github.com/tuttidb/tutti/internal/guards"
	"github.com/tuttidb/tutti/internal/halt"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/stopping"
	"github.com/tuttidb/tutti/internal/wire"
)

// loadClientTLS reads the certificate for clients anew, as it is done for each of them: it may have been renewed.
func (n *Node) loadClientTLS() error {
	c, err := n.settled().ClientTLS.ServerTLS()
	if err == nil {
		n.clientTLS.Store(c)
	}
	return err
}

// serve handles one connection from its first byte to its end. admitted is called once it
// is no stranger any more, or gone.
func (n *Node) serve(ctx context.Context, conn net.Conn, admitted func()) {
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	once := sync.OnceFunc(admitted)
	defer once()
	if err := n.loadClientTLS(); err != nil {
		n.log.Error("TLS for clients stays as it was: the files are not usable", "error", err)
	}
	who := clients.New(conn)
	o := wire.FrontOptions{TLS: n.clientTLS.Load(), RequireTLS: n.settled().ClientTLS.Require, MinorMax: n.minorMax()}
	startup, cancel, err := wire.Accept(conn, o)
	if err != nil {
		var said *wire.StartupError
		if errors.As(err, &said) {
			who.Says(said.Params)
		}
		if !errors.Is(err, io.EOF) && ctx.Err() == nil {
			n.clients.Refuse(who, err)
		}
		return
	}
	if cancel != nil {
		n.cancels.Cancel(cancel)
		return
	}
	who.Says(startup.Params)
	if startup.TLS != nil {
		who.TLS = clients.TLSVersion(startup.TLS.Version)
	}
	l, slot, login, e := n.admit(ctx, who, startup, conn)
	if l != nil {
		defer l.tenure.clients.Add(-1)
	}
	if e != nil {
		n.clients.Refuse(who, e)
		_ = startup.Refuse(e) // a client that left already misses nothing
		return
	}
	l.serve(who, startup, login, conn, slot, once)
}

// admit finds a place for a client, in a life that counts it, or says why there is none.
func (n *Node) admit(ctx context.Context, who *clients.Client, s *wire.Startup, conn net.Conn) (
	l *life, slot uint32, login wire.LoginOptions, e *wire.SQLError) {
	if n.stops.Refuses() {
		return nil, 0, login, stopping.TooLate()
	}
	if login, e = n.rules.Admission(ctx, who, s); e != nil {
		return nil, 0, login, e
	}
	if e = clients.Unacceptable(s); e != nil {
		return nil, 0, login, e
	}
	if l, e = n.database(ctx, s); e != nil {
		return nil, 0, login, e
	}
	clients := l.tenure.clients.Add(1)
	if clients == 1 {
		select {
		case l.tenure.come <- struct{}{}:
		default:
		}
	}
	if clients <= int64(n.settled().Limits.Sessions) {
		slot = l.sessions.Admit(conn)
	}
	switch {
	case slot != 0:
		return l, slot, login, nil
	case l.course.ending():
		return l, 0, login, errNotReady()
	}
	l.metrics.Limits.Sessions.Add(1)
	return l, 0, login, wire.Fatalf(wire.CodeTooManyConnections, "sorry, too many clients already (limit %d)",
		n.settled().Limits.Sessions)
}

// databaseWait is how long a client waits for a database that was just created, or is being opened.
var databaseWait = most(flow.WaitDatabase)

// database finds the life of the database that a client wants, or says why it cannot have it.
func (n *Node) database(ctx context.Context, s *wire.Startup) (*life, *wire.SQLError) {
	name := s.Params["database"]
	if name == "" {
		name = s.Params["user"]
	}
	t := n.current()
	if t == nil {
		return nil, n.notReady(name)
	}
	l := t.named(name)
	known := true // whether there is such a database
	if l == nil && t.ready() {
		l, known = t.await(ctx, name)
	}
	switch {
	case l == nil && !(known && t.ready()):
		return nil, n.notReady(name)
	case l == nil:
		return nil, wire.Fatalf(wire.CodeInvalidCatalogName, "database %q does not exist", name).
			WithDetail("No database of this name is replicated by this cluster.").
			WithHint("SHOW tutti.databases lists those there are.")
	case l.id.group != mainGroup:
		l.awaitOpen(ctx)
	}
	if h := l.course.halted.Load(); h != nil {
		return nil, halt.Refused(l.id.database, h).AsFatal()
	}
	if !l.course.ready.Load() {
		return nil, n.notReady(name)
	}
	return l, nil
}

// awaitOpen waits for a database that is being opened, as long as that can go on: the main one is open, and its order
// goes on.
func (l *life) awaitOpen(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, databaseWait)
	defer cancel()
	defer l.metrics.Waits.Begin(flow.WaitDatabase).End()
	for alone := (loneliness{}); l.tenure.ready() && !alone.lasts(l.tenure.leaderless()); {
		select {
		case <-l.course.opened:
			return
		case <-l.course.halting:
			return
		case <-l.course.done:
			return
		case <-ctx.Done():
			return
		case <-time.After(awaitInterval):
		}
	}
}

const (
	awaitInterval = 10 * time.Millisecond
	// leaderlessMax is how long a client waits for the order while nobody leads it. Most leaders that end are followed
	// sooner, and where there is no majority nothing is gained by waiting.
	leaderlessMax = 300 * time.Millisecond
)

// leaderless reports whether nobody leads the order of the main database, as far as this member knows.
func (t *tenure) leaderless() bool {
	main := t.life(mainGroup)
	return main == nil || main.order.core.Leader() == 0
}

// loneliness is since when there is no leader.
type loneliness struct{ since time.Time }

// lasts is told from time to time whether there is none, and reports whether that is so for too long.
func (l *loneliness) lasts(leaderless bool) bool {
	switch {
	case !leaderless:
		l.since = time.Time{}
	case l.since.IsZero():
		l.since = time.Now()
	}
	return leaderless && time.Since(l.since) > leaderlessMax
}

// notReady is errNotReady with what the node knows of the reason.
func (n *Node) notReady(database string) *wire.SQLError {
	e := errNotReady()
	if f, _ := facts(n, database); f.Waits != "" {
		return e.WithDetail("%s", f.Waits)
	}
	return e
}

// majorLong is the first version of PostgreSQL that speaks protocol 3.2.
const majorLong = 18

// minorMax is the minor version of the protocol that this member's PostgreSQL speaks.
func (n *Node) minorMax() uint16 {
	if n.major.Load() >= majorLong {
		return wire.ProtocolMinorLong
	}
	return 0
}

func errNotReady() *wire.SQLError {
	return wire.Fatalf(wire.CodeCannotConnectNow,
		"this member is not ready: it is starting, recovering, or has no majority").
		WithHint("Try again, or connect to another member.")
}

// endBackend ends the backend of a session that has ended before its time. It may still run a statement, which could
// wait for ever for an answer of the session's.
func (l *life) endBackend(pid uint32) {
	ctx, cancel := context.WithTimeout(context.Background(), link.LookMax)
	defer cancel()
	if err := l.db.monitor.Terminate(ctx, pid); err != nil && !l.course.ending() {
		l.log.Warn("a backend could not be ended", "pid", pid, "error", err)
	}
}

const (
	comeUpMost = 100 * time.Millisecond // that a login waits for what is ordered
	comeUpPoll = time.Millisecond
)

// comeUp waits for a moment until what this member knows to be ordered is applied. A client that was sent away by
// another member and comes here at once does not lose to what it has committed there.
func (l *life) comeUp() {
	decided, until := l.order.core.Ordinal(), time.Now().Add(comeUpMost)
	for l.order.core.Applied() < decided && time.Now().Before(until) && !l.course.ending() {
		time.Sleep(comeUpPoll)
	}
}

// leave ends whatever a session has that ends.
func leave(h *host) {
	h.listens.leave()
	h.advisory.Leave()
	h.snapshots.SerialApart()
	h.endLarge()
	h.rows.End()
	h.endLock()
	h.grants.EndTurn()
	h.snapshots.End()
	h.endTurn()
}

// serve logs an admitted client in at the local server and runs its session.
func (l *life) serve(
	who *clients.Client, startup *wire.Startup, o wire.LoginOptions, conn net.Conn, slot uint32, admitted func(),
) {
	var g *guards.Guard
	conns := []net.Conn{conn}
	defer func() {
		_ = conn.Close() // closed again by who accepted it
		l.submitted.patience.AwaitOrphan(g)
		l.sessions.Leave(conns, slot, g)
	}()
	backend, err := net.Dial("unix", l.node.pg.SocketPath())
	if err == nil {
		defer backend.Close()
		conns = append(conns, backend)
	}
	if err != nil || !l.sessions.Track(backend) {
		e := errNotReady()
		l.node.clients.Refuse(who, e)
		_ = startup.Refuse(e)
		return
	}
	parameters := who.Parameters(startup.Ordered, l.config.ApplicationNameAddHost)
	parameters = append(parameters, wire.Param{Name: capture.SessionSetting, Value: "on"})
	login, err := wire.Login(startup, backend, parameters, o)
	if err != nil {
		l.node.clients.Fail(who, err)
		return
	}
	if l.node.stops.Refuses() {
		_ = startup.Refuse(stopping.TooLate())
		return
	}
	admitted()
	defer l.node.clients.Enter(who, login)()
	defer l.tenure.origins.Enter(login.BackendPID, who)()
	g = guards.New(guards.Options{
		PID: login.BackendPID, Slot: slot, Client: startup.Conn, Backend: backend,
		Withdraw: l.submitted.patience.Withdraw, Coming: &l.sessions.Coming,
		Cancel: func() { l.db.monitor.Cancel(l.log, login.BackendPID) },
		Wake:   func() { l.flow.gate.Wake(); l.snapshots.Wake() },
	})
	l.sessions.Register(g, conn)
	secret, release := l.node.cancels.Register(login.BackendPID, startup.Minor, g.CancelClient)
	defer release()
	if secret == nil {
		_ = startup.Refuse(wire.Fatalf(wire.CodeTooManyConnections, "sorry, too many clients already"))
		return
	}
	l.comeUp()
	out := wire.NewWriter(startup.Conn)
	out.Append(login.Frames)
	out.Append(wire.AppendBackendKeyData(nil, login.BackendPID, secret))
	h := newHost(l, g)
	defer leave(h)
	s := session.New(session.Options{
		Client: startup.Reader, ClientOut: out, Server: login.Reader, ServerOut: wire.NewWriter(backend),
		Host: rolesOf(h), Collector: collect.Roles(l.db.collector), BytesMax: l.config.Limits.WritesetBytes,
		Room:    l.node.files.Room,
		Planned: l.plans.Count,
	})
	if err := s.Run(); err != nil {
		if l.course.ending() && !session.Told(err) {
			out.Append(l.errEnds().Append(nil))
		}
		l.log.Info("session ended before its time", "client_addr", who.Address, "error", err)
		l.endBackend(login.BackendPID)
	}
	_ = startup.Conn.SetWriteDeadline(time.Now().Add(time.Second))
	_ = out.Flush() // last words, if the client still listens
}
