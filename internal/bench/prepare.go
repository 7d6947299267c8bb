package bench

import (
	"context"
	"net"
	"strconv"
)

// fillPgbench makes pgbench's tables on a server, and leaves it at rest.
func (c *comparison) fillPgbench(ctx context.Context, s *server) error {
	host, port, _ := net.SplitHostPort(s.addresses[0]) // made by us
	if _, _, err := run(ctx, c.tools.pgbench, "-i", "-q", "-h", host, "-p", port, "-U", "postgres", "-s",
		strconv.Itoa(c.o.Scale), s.dbname); err != nil {
		return err
	}
	return s.rest(ctx)
}

// fillSysbench does the same for sysbench's tables.
func (c *comparison) fillSysbench(ctx context.Context, s *server) error {
	host, port, _ := net.SplitHostPort(s.addresses[0]) // made by us
	b := c.sysbench()
	args := append(b.connection("read_write", &client{host: host, port: port, dbname: s.dbname}), "prepare")
	if _, _, err := run(ctx, b.program, args...); err != nil {
		return err
	}
	return s.rest(ctx)
}

// rest waits until every node has all of it, and takes out of the way what PostgreSQL would
// otherwise do during the first runs.
func (s *server) rest(ctx context.Context) error {
	if err := s.drain(ctx); err != nil {
		return err
	}
	for _, d := range s.databases {
		for _, q := range []string{"VACUUM ANALYZE", "CHECKPOINT"} {
			if err := do(ctx, d.conn, q); err != nil {
				return err
			}
		}
	}
	return nil
}
