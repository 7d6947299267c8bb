package join

import (
	"bytes"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/tuttidb/tutti/internal/config"
)

// cluster answers as a node does that is asked who the members are, and to add one.
type cluster struct {
	t    *testing.T
	addr string

	mu     sync.Mutex
	rows   [][]string // SHOW tutti.members
	asked  []string
	refuse string // why nobody is added
}

func newCluster(t *testing.T, rows ...[]string) *cluster {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	c := &cluster{t: t, addr: ln.Addr().String(), rows: rows}
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go c.serve(conn)
		}
	}()
	return c
}

func (c *cluster) serve(conn net.Conn) {
	defer conn.Close()
	b := pgproto3.NewBackend(conn, conn)
	for begun := false; !begun; {
		m, err := b.ReceiveStartupMessage()
		if err != nil {
			return
		}
		if _, begun = m.(*pgproto3.StartupMessage); begun {
			b.Send(&pgproto3.AuthenticationOk{})
			b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
			err = b.Flush()
		} else {
			_, err = conn.Write([]byte("N"))
		}
		if err != nil {
			return
		}
	}
	for {
		m, err := b.Receive()
		q, is := m.(*pgproto3.Query)
		if err != nil || !is {
			return
		}
		c.answer(b, q.String)
		if b.Flush() != nil {
			return
		}
	}
}

func (c *cluster) refuses(why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refuse = why
}

func (c *cluster) answer(b *pgproto3.Backend, sql string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = append(c.asked, sql)
	switch {
	case sql == "SHOW tutti.members":
		var fields []pgproto3.FieldDescription
		for _, name := range []string{"number", "member", "address", "clients"} {
			fields = append(fields, pgproto3.FieldDescription{Name: []byte(name)})
		}
		b.Send(&pgproto3.RowDescription{Fields: fields})
		for _, r := range c.rows {
			var values [][]byte
			for _, v := range r {
				values = append(values, []byte(v))
			}
			b.Send(&pgproto3.DataRow{Values: values})
		}
	case c.refuse != "":
		b.Send(&pgproto3.ErrorResponse{Severity: "ERROR", Code: "53400", Message: c.refuse})
	default:
		args := strings.Split(strings.TrimSuffix(sql[strings.Index(sql, "(")+1:], ")"), ", ")
		row := []string{fmt.Sprint(len(c.rows) + 1)}
		for _, a := range args {
			row = append(row, strings.ReplaceAll(strings.Trim(a, "'"), "''", "'"))
		}
		c.rows = append(c.rows, row)
	}
	b.Send(&pgproto3.CommandComplete{CommandTag: []byte("SHOW")})
	b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
}

// TestJoin: a member is added once, however often it is tried (J2), and gets a configuration with the number that it
// was given; what the cluster refuses is told, and makes nothing.
func TestJoin(t *testing.T) {
	first := filepath.Join(t.TempDir(), "a")
	if err := Init(Options{Dir: first, Cluster: "shop", Name: "alpha", Listen: "h:1", MemberListen: "h:2",
		Database: "orders"}, &bytes.Buffer{}); err != nil {
		t.Fatal(err)
	}
	c := newCluster(t, []string{"1", "alpha", "h:2", "h:1"})
	o := Options{Dir: filepath.Join(t.TempDir(), "b"), Keys: filepath.Join(first, keysName), From: c.addr,
		User: "postgres", Name: "o'hara", Listen: "h:3", MemberListen: "h:4", AllowTrust: true}
	const full = "there are 16 members already"
	c.refuses(full)
	if err := Join(t.Context(), o, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), full) {
		t.Errorf("it is refused: %v", err)
	}
	c.refuses("")
	for try := range 2 {
		if o.Dir = filepath.Join(t.TempDir(), fmt.Sprint(try)); try > 0 {
			o.AllowTrust = false
		}
		var out bytes.Buffer
		if err := Join(t.Context(), o, &out); err != nil {
			t.Fatal(err)
		}
		got, err := config.Load(filepath.Join(o.Dir, configName))
		if err != nil {
			t.Fatal(err)
		}
		if got.Member != 2 || got.Self() != o.member(2) || len(got.Members) != 2 || got.Cluster != "shop" ||
			got.Database != "orders" || got.Postgres.AllowTrust != o.AllowTrust {
			t.Errorf("%+v", got)
		}
		if !strings.Contains(out.String(), "o'hara is member 2 of cluster shop") {
			t.Errorf("it says %q", out.String())
		}
	}
	calls := 0
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, sql := range c.asked {
		if strings.HasPrefix(sql, "CALL tutti.add_member('o''hara', 'h:4', 'h:3')") {
			calls++
		}
	}
	if calls != 2 { // one was refused
		t.Errorf("asked %q", c.asked)
	}
}
