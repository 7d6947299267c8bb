package replay

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tuttidb/tutti/internal/database/link"
)

// drawCurtain draws the curtain for a definition of kind LongAttached that is at work. It is called until nobody
// but the definition has a lock on the table any more; then drawn is true.
func (x *Jobs) drawCurtain(ctx context.Context, g *Job) (drawn bool, err error) {
	definer := x.o.Applier.Definer.Conn.PID()
	g.mu.Lock()
	c := g.Curtain
	g.mu.Unlock()
	if c == nil {
		r, err := x.o.Monitor.Exec(ctx, fmt.Sprintf(
			`
SELECT l.relation, pg_catalog.format('%%I.%%I', n.nspname, c.relname) FROM pg_catalog.pg_locks l JOIN pg_catalog.pg_class c ON c.oid = l.relation JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE l.pid = %d AND c.relkind = 'p' GROUP BY 1, 2 HAVING bool_or(l.mode = 'ShareUpdateExclusiveLock') AND NOT bool_or(l.mode = 'AccessExclusiveLock')`, definer))
		if err != nil {
			return false, err
		}
		if len(r[0].Rows) != 1 { // several partitions are attached to several tables
			g.draw(&Curtain{})
			return false, nil
		}
		x.hang(ctx, g, string(r[0].Rows[0][0]), string(r[0].Rows[0][1]))
		return false, nil
	}
	if c.Table == "" {
		return false, nil
	}
	r, err := x.o.Monitor.Exec(ctx, fmt.Sprintf(
		`
SELECT count(*) FILTER (WHERE NOT granted AND pid = %d) = 1 AND count(*) FILTER (WHERE granted AND pid <> %d) = 0 FROM pg_catalog.pg_locks
WHERE locktype = 'relation' AND relation = %s AND database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database())`, c.Conn.PID(), definer, c.Table))
	return err == nil && string(r[0].Rows[0][0]) == "t", err
}

// hang makes a curtain ask for its lock. Without a connection there is none, and what is ordered behind the definition
// waits.
func (x *Jobs) hang(ctx context.Context, g *Job, table, name string) {
	conn, err := link.Connect(ctx, x.o.ConnString, "tutti curtain", map[string]string{
		"deadlock_timeout": "1h", "lock_timeout": "0", "statement_timeout": "0",
		"idle_in_transaction_session_timeout": "0", "search_path": "pg_catalog"})
	if err != nil {
		x.o.Log.Warn("nobody goes on beside a definition", "ordinal", g.Task.Ordinal, "error", err)
		g.draw(&Curtain{})
		return
	}
	c := &Curtain{Conn: conn, Table: table, Lost: make(chan error, 1), over: make(chan struct{}),
		gone: make(chan struct{})}
	x.o.Backends.Curtain.Store(conn.PID())
	g.draw(c)
	x.o.Background(func() {
		defer close(c.gone)
		defer func() {
			x.o.Backends.Curtain.CompareAndSwap(conn.PID(), 0)
			_ = conn.Close(context.WithoutCancel(ctx)) // the server notices either way
		}()
		asked := make(chan error, 1)
		go func() {
			_, err := conn.Exec(context.WithoutCancel(ctx),
				"BEGIN; LOCK TABLE ONLY "+name+" IN ACCESS EXCLUSIVE MODE").ReadAll()
			asked <- err
			close(asked)
		}()
		select {
		case err := <-asked:
			if err != nil && !g.Over() {
				c.Lost <- fmt.Errorf("replay: table %s cannot be hidden any more while a partition is attached to it: "+
					"%w", name, err)
			}
			if !g.keeps(c) {
				return
			}
		case <-c.over:
		case <-g.Done:
		case <-ctx.Done():
		}
		select { // it stays for as long as the definition goes on
		case <-g.Done:
			if g.Exposed() && g.Err != nil { // the next life begins with it anew
				<-ctx.Done()
			}
		case <-c.over:
		case <-ctx.Done():
		}
		takeBack(conn)
		select {
		case <-asked: // the connection is free
		case <-time.After(time.Second):
		}
	})
}

// takeBack has PostgreSQL forget what the curtain asks for. Somebody who reads the table for long may be in its way
// still, and whoever comes stands behind it; the end of a connection alone is not seen by a backend that waits for a
// lock.
func takeBack(conn *pgconn.PgConn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = conn.CancelRequest(ctx) // failing, the server is gone, or ends with the life
}
