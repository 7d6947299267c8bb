package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Sizes of the load's tables: small, so that nodes meet on rows.
const (
	loadBranches = 12
	loadTellers  = 120
	loadAccounts = 6000
)

// Load is TPC-B by many clients at all nodes. Each transaction writes a history row with an
// id never used before, so that the fate of every single one can be checked (T3).
type Load struct {
	c      *Cluster
	prefix string // of the tables' names

	// rest is how long a client waits after each transaction, where it is enough that there always are some: without
	// it they take all processors that other tests could have.
	rest time.Duration

	mu     sync.Mutex
	fate   map[int64]fate
	counts map[string]int // answers by SQLSTATE, "ok", or "broken"
	odd    []string       // errors that may not happen
}

// fate is what a client knows of its transaction.
type fate uint8

const (
	lost    fate = iota + 1 // certainly not committed
	told                    // acknowledged
	unknown                 // the answer is missing, or says so
)

// NewLoad creates the tables, with a prefix of their own, and waits until all nodes have them.
func (c *Cluster) NewLoad(prefix string) *Load {
	c.tb.Helper()
	l := &Load{c: c, prefix: prefix, fate: map[int64]fate{}, counts: map[string]int{}}
	s := c.Connect(1)
	for _, q := range []string{
		"CREATE TABLE %s_branches(bid int PRIMARY KEY, bbalance bigint NOT NULL)",
		"CREATE TABLE %s_tellers(tid int PRIMARY KEY, tbalance bigint NOT NULL)",
		"CREATE TABLE %s_accounts(aid int PRIMARY KEY, abalance bigint NOT NULL)",
		"CREATE TABLE %s_history(id bigint PRIMARY KEY, aid int REFERENCES %[1]s_accounts, tid int, bid int, delta " +
			"bigint NOT NULL)",
	} {
		s.Do(fmt.Sprintf(q, prefix))
	}
	s.Do(fmt.Sprintf("INSERT INTO %s_branches SELECT i, 0 FROM generate_series(1, %d) i", prefix, loadBranches),
		fmt.Sprintf("INSERT INTO %s_tellers SELECT i, 0 FROM generate_series(1, %d) i", prefix, loadTellers),
		fmt.Sprintf("INSERT INTO %s_accounts SELECT i, 0 FROM generate_series(1, %d) i", prefix, loadAccounts))
	c.Everywhere(fmt.Sprintf("SELECT count(*) FROM %s_accounts", prefix), fmt.Sprint(loadAccounts))
	return l
}

// Run lets clients work at each node until stop is closed. Clients whose node is gone try
// to connect again, for as long as it takes.
func (l *Load) Run(clientsPerNode int, stop <-chan struct{}) {
	var wg sync.WaitGroup
	for _, k := range l.c.All() {
		for i := range clientsPerNode {
			wg.Go(func() { l.client(k, i, stop) })
		}
	}
	wg.Wait()
}

// RunFor is Run with a duration, and for as long as it takes on a slow machine until the least number of
// transactions is committed.
func (l *Load) RunFor(clientsPerNode int, d time.Duration, least int) {
	l.c.tb.Helper()
	stop := make(chan struct{})
	go func() {
		defer close(stop)
		time.Sleep(d)
		for end := time.Now().Add(sqlTimeout); l.Counts()["ok"] < least && time.Now().Before(end); {
			time.Sleep(pollInterval)
		}
	}()
	l.Run(clientsPerNode, stop)
	if got := l.Counts()["ok"]; got < least {
		l.c.tb.Errorf("only %d transactions committed: %v", got, l.Counts())
	}
}

var nextClient struct {
	sync.Mutex
	n int64
}

func (l *Load) client(node, i int, stop <-chan struct{}) {
	nextClient.Lock()
	nextClient.n++
	id := nextClient.n << 20
	nextClient.Unlock()
	rng := rand.New(rand.NewPCG(uint64(id), 1))
	var conn *pgx.Conn
	defer func() { closeConn(conn) }()
	for {
		select {
		case <-stop:
			return
		default:
		}
		if conn == nil || conn.IsClosed() {
			closeConn(conn)
			if conn = l.connect(node); conn == nil {
				time.Sleep(50 * time.Millisecond)
				continue
			}
		}
		id++
		q := l.statements(id, rng)
		var f fate
		var err error
		if i%4 == 3 {
			f, err = oneQuery(conn, q)
		} else {
			f, err = block(conn, q)
		}
		l.note(id, f, err)
		time.Sleep(l.rest)
	}
}

func closeConn(conn *pgx.Conn) {
	if conn != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = conn.Close(ctx) // it may be broken already
	}
}

// connect returns nil when the node cannot be reached or is not ready.
func (l *Load) connect(node int) *pgx.Conn {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, l.c.URL(node))
	if err != nil {
		if code := Code(err); code != "" && code != "57P03" && code != "57P01" {
			l.note(0, 0, err)
		}
		return nil
	}
	return conn
}

// statements are one TPC-B transaction.
func (l *Load) statements(id int64, rng *rand.Rand) []string {
	aid, tid, bid := 1+rng.IntN(loadAccounts), 1+rng.IntN(loadTellers), 1+rng.IntN(loadBranches)
	delta := rng.IntN(10000) - 5000
	return []string{
		fmt.Sprintf("UPDATE %s_accounts SET abalance = abalance + %d WHERE aid = %d", l.prefix, delta, aid),
		fmt.Sprintf("SELECT abalance FROM %s_accounts WHERE aid = %d", l.prefix, aid),
		fmt.Sprintf("UPDATE %s_tellers SET tbalance = tbalance + %d WHERE tid = %d", l.prefix, delta, tid),
		fmt.Sprintf("UPDATE %s_branches SET bbalance = bbalance + %d WHERE bid = %d", l.prefix, delta, bid),
		fmt.Sprintf("INSERT INTO %s_history VALUES (%d, %d, %d, %d, %d)", l.prefix, id, aid, tid, bid, delta),
	}
}

// run runs one text by the simple protocol.
func run(conn *pgx.Conn, sql string) error {
	ctx, cancel := context.WithTimeout(context.Background(), sqlTimeout)
	defer cancel()
	_, err := conn.PgConn().Exec(ctx, sql).ReadAll()
	return err
}

// block runs a transaction statement by statement. Only the answer to COMMIT can be unknown.
func block(conn *pgx.Conn, statements []string) (fate, error) {
	for _, q := range append([]string{"BEGIN"}, statements...) {
		if err := run(conn, q); err != nil {
			if !conn.IsClosed() {
				err = errors.Join(err, run(conn, "ROLLBACK"))
			}
			return lost, err
		}
	}
	return judge(run(conn, "COMMIT"))
}

// oneQuery runs it as one message, an implicit transaction.
func oneQuery(conn *pgx.Conn, statements []string) (fate, error) {
	all := ""
	for _, q := range statements {
		all += q + ";"
	}
	return judge(run(conn, all))
}

// judge says what the answer to the end of a transaction means.
func judge(err error) (fate, error) {
	switch code := Code(err); {
	case err == nil:
		return told, nil
	case code == "", code == "40003":
		return unknown, err
	}
	return lost, err
}

// note records an answer. What may happen to a client: a conflict (40001), its node ending
// under it (57P01, 57P03), an outcome nobody knows (40003), a broken connection.
func (l *Load) note(id int64, f fate, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f != 0 {
		l.fate[id] = f
	}
	if err == nil {
		l.counts["ok"]++
		return
	}
	code := Code(err)
	switch code {
	case "":
		code = "broken"
		var timeout interface{ Timeout() bool }
		if errors.As(err, &timeout) && timeout.Timeout() || pgconn.Timeout(err) {
			code = "timeout"
			l.odd = append(l.odd, Explain(err))
		}
	case "40001":
		var pg *pgconn.PgError
		if errors.As(err, &pg) && pg.Detail == "" && pg.Hint == "" {
			code = "40001 unexplained"
		}
	case "40003", "57P01", "57P03":
	default:
		l.odd = append(l.odd, Explain(err))
	}
	l.counts[code]++
}

// Counts tells how often each answer was given.
func (l *Load) Counts() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := map[string]int{}
	for k, v := range l.counts {
		out[k] = v
	}
	return out
}

// Verify checks money and every single transaction on every node, and the databases against
// each other.
func (l *Load) Verify() {
	l.c.tb.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.odd[:min(5, len(l.odd))] {
		l.c.tb.Errorf("a client was told %s", e)
	}
	l.c.Check() // also waits until every node has applied what was told
	for _, k := range l.c.All() {
		l.verifyNode(k)
	}
}

func (l *Load) verifyNode(k int) {
	l.c.tb.Helper()
	s := l.c.Connect(k)
	sums := s.Get(fmt.Sprintf(
		`SELECT (SELECT sum(abalance) FROM %[1]s_accounts) = d, (SELECT sum(tbalance) FROM %[1]s_tellers) = d,
		(SELECT sum(bbalance) FROM %[1]s_branches) = d FROM (SELECT coalesce(sum(delta), 0) AS d FROM %[1]s_history) h`, l.prefix))
	if sums != "t|t|t" {
		l.c.tb.Errorf("node %d: accounts, tellers and branches agree with the history: %s", k, sums)
	}
	rows, err := s.Query(context.Background(), fmt.Sprintf("SELECT id FROM %s_history", l.prefix))
	if err != nil {
		l.c.tb.Fatal(err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		l.c.tb.Fatal(err)
	}
	there := map[int64]bool{}
	for _, id := range ids {
		if there[id] {
			l.c.tb.Errorf("node %d: transaction %d is there twice", k, id)
		}
		there[id] = true
		switch l.fate[id] {
		case lost:
			l.c.tb.Errorf("node %d: transaction %d was refused, and is there", k, id)
		case told, unknown:
		default:
			l.c.tb.Errorf("node %d: transaction %d was never sent", k, id)
		}
	}
	missing := 0
	for id, f := range l.fate {
		if f == told && !there[id] {
			missing++
		}
	}
	if missing > 0 {
		l.c.tb.Errorf("node %d: %d acknowledged transactions are missing", k, missing)
	}
}
