package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tuttidb/tutti/internal/check"
)

const (
	sqlTimeout     = 60 * time.Second
	connectTimeout = 5 * time.Second
	reconnectAfter = 20 * time.Millisecond
	thinkMean      = 15 * time.Millisecond // between a client's transactions
)

// load is all clients at all nodes.
type load struct {
	c       *cluster
	r       *recorder
	stop    chan struct{}
	wg      sync.WaitGroup
	lists   *listKeys
	strict  *listKeys // of SERIALIZABLE transactions
	parents *recent
	claims  counter
	larges  larges

	mu    sync.Mutex // crews
	crews []*crew
}

// client is one client of one node.
type client struct {
	*load
	crew    *crew
	node    int // where it is, or was last
	work    workload
	mode    pgx.QueryExecMode
	rng     *rand.Rand
	conn    *pgx.Conn
	session int
	told    *int64 // where a number that a notice tells is put
}

// workload makes one transaction and says in t what became of it.
type workload func(c *client, t *Tx) error

// workloads are dealt to a node's clients in turn, and last large if it is wished for, or transfer.
var workloads = []workload{transfer, listRepeatable, listCommitted, claim, serial, listSerializable, hit, sum, steps,
	tally}

var modes = []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeSimpleProtocol, pgx.QueryExecModeExec}

// startLoad lets the clients work until end is called.
func startLoad(c *cluster, r *recorder) *load {
	l := &load{c: c, r: r, stop: make(chan struct{}), lists: newListKeys(0), strict: newListKeys(strictKeys),
		parents: &recent{}}
	for _, n := range c.members() {
		l.comes(n.k)
	}
	return l
}

// end stops the clients; those that do not finish their transaction are a problem.
func (l *load) end() error {
	close(l.stop)
	done := make(chan struct{})
	go func() { l.wg.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-time.After(recovers):
		return errors.New("clients still wait for an answer, although nothing is broken any more")
	}
}

func (l *load) stopped() bool {
	select {
	case <-l.stop:
		return true
	default:
		return false
	}
}

func (c *client) run() {
	defer c.disconnect()
	for !c.stopped() {
		if home := c.home(c.crew); c.conn != nil && home != 0 && home != c.node {
			c.disconnect()
		}
		if c.conn == nil && !c.connect() {
			time.Sleep(reconnectAfter)
			continue
		}
		t := &Tx{Node: c.node, Session: c.session, Tag: c.r.tags.Add(1), Start: c.r.now()}
		err := c.work(c, t)
		t.End = c.r.now()
		c.finish(t, err)
		time.Sleep(time.Duration(c.rng.ExpFloat64() * float64(thinkMean)))
	}
}

// finish records a transaction. A client whose outcome is unknown goes on as another one.
func (c *client) finish(t *Tx, err error) {
	odd := ""
	if err != nil {
		if t.Code = code(err); !c.allowed(t) {
			odd = fmt.Sprintf("node%d answered a %s: %s", t.Node, t.Workload, explain(err))
		}
	}
	c.r.add(t, odd)
	if t.Outcome == check.Unknown {
		c.session = int(c.r.named.Add(1))
	}
	if c.conn.IsClosed() {
		c.disconnect()
	}
}

func (c *client) connect() bool {
	ctx, cancel := context.WithTimeout(context.Background(), connectTimeout)
	defer cancel()
	if c.node = c.home(c.crew); c.node == 0 {
		members := c.c.members()
		c.node = members[c.rng.IntN(len(members))].k
	}
	cfg, err := pgx.ParseConfig(c.c.url(c.node))
	if err != nil {
		panic(err) // we made the text
	}
	cfg.DialFunc = c.c.net.dial
	cfg.DefaultQueryExecMode = c.mode
	cfg.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) { c.notice(n) }
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		odd := ""
		if s := code(err); s != "57P03" && s != "57P01" && s != "broken" && s != "timeout" && !c.onSmallDisk(c.node) {
			odd = fmt.Sprintf("node%d refused a connection: %s", c.node, explain(err))
		}
		c.r.note("connect "+code(err), odd)
		return false
	}
	c.conn, c.session = conn, int(c.r.named.Add(1))
	return true
}

func (c *client) disconnect() {
	if c.conn != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = c.conn.Close(ctx) // it may be broken already
		c.conn = nil
	}
}

// onSmallDisk: such a node may tell what its full disk does to it.
func (c *client) onSmallDisk(node int) bool {
	n := c.c.node(node)
	c.c.mu.Lock()
	defer c.c.mu.Unlock()
	return n.small
}

// allowed says whether a client may be told this: a conflict, its node ending under it, an
// outcome nobody knows, a broken connection, or what its workload asks for.
func (c *client) allowed(t *Tx) bool {
	switch t.Code {
	case "timeout": // much later than asked for, it was the machine that slept
		return time.Duration(t.End-t.Start) > 2*sqlTimeout
	case "40001", "40003", "57P01", "57P03", "broken":
		return true
	case "23505":
		return t.Workload == wClaim
	case "23503":
		return t.Workload == wChild || t.Workload == wDelete
	}
	return strings.HasPrefix(t.Code, "08") || c.onSmallDisk(t.Node) &&
		slices.Contains([]string{"53100", "57P02", "58030"}, t.Code)
}

// code is an error's SQLSTATE; "broken" if it has none, "timeout" if it took too long.
func code(err error) string {
	var pg *pgconn.PgError
	switch {
	case errors.As(err, &pg):
		return pg.Code
	case pgconn.Timeout(err), errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	}
	return "broken"
}

func explain(err error) string {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return fmt.Sprint(err)
	}
	return fmt.Sprintf("%v DETAIL: %s HINT: %s", err, pg.Detail, pg.Hint)
}

// answer says what the answer to the end of a transaction means (K2).
func answer(err error) check.Outcome {
	if err == nil {
		return check.OK
	}
	if s := code(err); s == "broken" || s == "timeout" || s == "40003" || strings.HasPrefix(s, "08") {
		return check.Unknown
	}
	return check.Fail
}

// exec runs a statement and returns how many rows it changed.
func (c *client) exec(sql string, args ...any) (int64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), sqlTimeout)
	defer cancel()
	tag, err := c.conn.Exec(ctx, sql, args...)
	return tag.RowsAffected(), err
}

// row reads the one row of a query.
func (c *client) row(sql string, args []any, to ...any) error {
	ctx, cancel := context.WithTimeout(context.Background(), sqlTimeout)
	defer cancel()
	return c.conn.QueryRow(ctx, sql, args...).Scan(to...)
}

// single runs a statement that is a transaction of its own.
func (c *client) single(t *Tx, f func() error) error {
	err := f()
	t.Outcome = answer(err)
	return err
}

// block runs a transaction statement by statement; only the answer to COMMIT can be unknown.
func (c *client) block(t *Tx, level check.Level, body func() error) error {
	begin := "BEGIN"
	switch level {
	case check.Snapshot:
		begin = "BEGIN ISOLATION LEVEL REPEATABLE READ"
	case check.Serializable:
		begin = "BEGIN ISOLATION LEVEL SERIALIZABLE"
	}
	t.Level, t.Outcome = level, check.Fail
	_, err := c.exec(begin)
	if err == nil {
		err = body()
	}
	if err != nil {
		if !c.conn.IsClosed() {
			_, _ = c.exec("ROLLBACK") // if this fails the connection does, and the next use says so
		}
		return err
	}
	_, err = c.exec("COMMIT")
	t.Outcome = answer(err)
	return err
}

// level draws one of the two.
func (c *client) level() check.Level {
	if c.rng.IntN(2) == 0 {
		return check.ReadCommitted
	}
	return check.Snapshot
}
