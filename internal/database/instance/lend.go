package instance

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// Lend lets who is at the other end of conn copy the server with Through, under a name that the server
// shows. It returns when one of the two is done, or ctx ends, and closes conn.
func (i *Instance) Lend(ctx context.Context, conn net.Conn, name string) error {
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if err := asksForReplication(conn); err != nil {
		return fmt.Errorf("lend the server to %s: %w", name, err)
	}
	own, err := (&net.Dialer{}).DialContext(ctx, "unix", i.SocketPath())
	if err != nil {
		return fmt.Errorf("lend the server to %s: %w", name, err)
	}
	defer own.Close()
	stopOwn := context.AfterFunc(ctx, func() { own.Close() })
	defer stopOwn()
	begin := pgproto3.StartupMessage{ProtocolVersion: pgproto3.ProtocolVersionNumber, Parameters: map[string]string{
		"user": i.o.Superuser, "replication": "true", "application_name": name}}
	first, err := begin.Encode(nil)
	if err == nil {
		_, err = own.Write(first)
	}
	if err != nil {
		return fmt.Errorf("lend the server to %s: %w", name, err)
	}
	var both sync.WaitGroup
	pass := func(to, from net.Conn) {
		// How it ended does not matter: a backup that is not complete is none.
		_, _ = io.Copy(to, from)
		to.Close()
		from.Close()
	}
	both.Go(func() { pass(own, conn) })
	both.Go(func() { pass(conn, own) })
	both.Wait()
	return nil
}

// startupBytesMax is what PostgreSQL takes.
const startupBytesMax = 10000

// asksForReplication reads a start-up message, and nothing behind it.
func asksForReplication(conn net.Conn) error {
	var head [4]byte
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		return err
	}
	length := binary.BigEndian.Uint32(head[:])
	if length < uint32(len(head)) || length > startupBytesMax {
		return fmt.Errorf("its start-up message has %d bytes", length)
	}
	body := make([]byte, length-uint32(len(head)))
	if _, err := io.ReadFull(conn, body); err != nil {
		return err
	}
	var m pgproto3.StartupMessage
	if m.Decode(body) != nil || m.Parameters["replication"] != "true" {
		return errors.New("it does not ask for the replication protocol")
	}
	return nil
}

// Through describes a donor that is lent (Lend) at the other end of what dial gives.
func Through(donor string, dial func(context.Context) (net.Conn, error)) (*pgconn.Config, error) {
	cfg, err := pgconn.ParseConfig("host=donor port=1 user=postgres sslmode=disable")
	if err != nil {
		return nil, errors.New("the environment has settings for PostgreSQL's clients that cannot be read")
	}
	cfg.Host = donor
	cfg.LookupFunc = func(context.Context, string) ([]string, error) { return []string{donor}, nil }
	cfg.DialFunc = func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }
	return cfg, nil
}
