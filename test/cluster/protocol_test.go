package cluster

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/tuttidb/tutti/internal/database/instance"
)

// startupPacket is a start-up packet of any version.
func startupPacket(major, minor uint16, words ...string) []byte {
	var body []byte
	for _, w := range words {
		body = append(append(body, w...), 0)
	}
	p := binary.BigEndian.AppendUint32(nil, uint32(len(body)+9))
	p = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(p, major), minor)
	return append(append(p, body...), 0)
}

// greeting words what a server says up to its first ReadyForQuery or error, but for what is
// another in every session: parameters, keys, and the place in the server's source.
func greeting(t *testing.T, network, address string, packet []byte) string {
	t.Helper()
	c, err := net.Dial(network, address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(sqlTimeout)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write(packet); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for {
		head := make([]byte, 5)
		if _, err := io.ReadFull(c, head); err != nil {
			return out.String() + err.Error()
		}
		body := make([]byte, binary.BigEndian.Uint32(head[1:])-4)
		if _, err := io.ReadFull(c, body); err != nil {
			return out.String() + err.Error()
		}
		switch head[0] {
		case 'S':
		case 'K':
			fmt.Fprintf(&out, "key of %d bytes\n", len(body)-4)
		case 'E':
			for field := range strings.SplitSeq(string(body), "\x00") {
				if field != "" && strings.ContainsRune("SCMDH", rune(field[0])) {
					fmt.Fprintf(&out, "%s\n", field)
				}
			}
			return out.String()
		default:
			fmt.Fprintf(&out, "%c %q\n", head[0], body)
			if head[0] == 'Z' {
				return out.String()
			}
		}
	}
}

// TestStartupVersions: whatever version of the protocol a client asks for, a node answers as its
// own PostgreSQL does.
func TestStartupVersions(t *testing.T) {
	c := use(t)
	build, err := findBuild()
	if err != nil {
		t.Fatal(err)
	}
	own := instance.New(instance.Options{Build: build,
		DataDir: filepath.Join(c.Node(1).Config.DataDir, "postgres")}).SocketPath()
	who := []string{"user", "postgres", "database", "postgres"}
	for name, packet := range map[string][]byte{
		"3.0":              startupPacket(3, 0, who...),
		"3.1":              startupPacket(3, 1, who...),
		"3.2":              startupPacket(3, 2, who...),
		"3.9999":           startupPacket(3, 9999, who...),
		"an option":        startupPacket(3, 0, append(slices.Clone(who), "_pq_.x", "1")...),
		"two options, 3.2": startupPacket(3, 2, append(slices.Clone(who), "_pq_.x", "1", "_pq_.y", "")...),
		"4.1":              startupPacket(4, 1, who...),
		"no user":          startupPacket(3, 0, "database", "postgres"),
		"a bad setting":    startupPacket(3, 0, append(slices.Clone(who), "work_mem", "x")...),
		"no such setting":  startupPacket(3, 0, append(slices.Clone(who), "nothing_known", "1")...),
	} {
		want := greeting(t, "unix", own, packet)
		if got := greeting(t, "tcp", c.Node(1).Config.Listen, packet); got != want {
			t.Errorf("%s:\n%s, but PostgreSQL says\n%s", name, got, want)
		}
	}
}

// TestTemporaryTypes: what is in pg_temp is the session's own, whatever it is.
func TestTemporaryTypes(t *testing.T) {
	c := use(t)
	s, other := c.Connect(1), c.Connect(2)
	s.Do("CREATE TYPE pg_temp.mood AS ENUM ('good')", "ALTER TYPE pg_temp.mood ADD VALUE 'bad'",
		"CREATE TYPE pg_temp.span AS RANGE (subtype = text)",
		"CREATE DOMAIN pg_temp.small AS int CHECK (VALUE < 10)", "CREATE TYPE pg_temp.pair AS (a int, b int)",
		"ALTER TYPE pg_temp.pair RENAME TO twin",
		"BEGIN", "CREATE FUNCTION pg_temp.one() RETURNS int LANGUAGE sql AS 'SELECT 1'",
		"CREATE AGGREGATE pg_temp.total(int) (sfunc = int4pl, stype = int, initcond = 0)", "COMMIT",
		"CREATE TABLE temporary_types (id int PRIMARY KEY, v text)",
		"INSERT INTO temporary_types VALUES (1, 'bad'::pg_temp.mood)")
	if got := s.Get("SELECT pg_temp.total(x), pg_temp.one(), 7::pg_temp.small, (3, 4)::pg_temp.twin FROM " +
		"generate_series(1, 4) x"); got != "10|1|7|(3,4)" {
		t.Error(got)
	}
	if _, err := other.Ask("SELECT pg_temp.one()"); err == nil {
		t.Error("another session has it as well")
	}
	s.Do("DROP AGGREGATE pg_temp.total(int)", "DROP TYPE pg_temp.mood, pg_temp.span, pg_temp.twin",
		"DROP DOMAIN pg_temp.small", "DROP FUNCTION pg_temp.one()")
	c.Everywhere("SELECT * FROM temporary_types", "1|bad")
	c.Check()
}

// TestRefusedAtPrepare: a driver learns when it prepares that a statement is refused, not that
// it takes no parameters.
func TestRefusedAtPrepare(t *testing.T) {
	c := use(t)
	s := c.Connect(1)
	if _, err := s.Prepare(s.ctx(), "set", "SELECT set_config('tutti.tx', $1, true)"); Code(err) != "0A000" {
		t.Errorf("prepared: %v", err)
	}
	tx, err := s.Begin(s.ctx())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Prepare(s.ctx(), "set", "SELECT set_config('tutti.tx', $1, true)"); Code(err) != "0A000" {
		t.Errorf("prepared in a block: %v", err)
	}
	if _, err := s.Prepare(s.ctx(), "one", "SELECT 1"); Code(err) != "25P02" {
		t.Errorf("the block goes on: %v", err)
	}
	if err := tx.Rollback(s.ctx()); err != nil {
		t.Error(err)
	}
}

// TestTargetSessionAttrs: every node is one that takes writes, and none is a standby.
func TestTargetSessionAttrs(t *testing.T) {
	c := use(t)
	for _, k := range c.All() {
		for attrs, accepted := range map[string]bool{"any": true, "read-write": true, "primary": true,
			"prefer-standby": true, "read-only": false, "standby": false} {
			config, err := pgx.ParseConfig(c.URL(k) + "&target_session_attrs=" + attrs)
			if err != nil {
				t.Fatal(err)
			}
			conn, err := pgconn.ConnectConfig(t.Context(), &config.Config)
			if accepted != (err == nil) {
				t.Errorf("node %d, %s: %v", k, attrs, err)
			}
			if err == nil {
				if conn.ParameterStatus("in_hot_standby") != "off" ||
					conn.ParameterStatus("default_transaction_read_only") != "off" {
					t.Errorf("node %d reports in_hot_standby %q, default_transaction_read_only %q", k,
						conn.ParameterStatus("in_hot_standby"), conn.ParameterStatus("default_transaction_read_only"))
				}
				_ = conn.Close(t.Context())
			}
		}
	}
}

// TestSetvalByDrivers: setval returns its row and takes parameters, in every form drivers send them,
// and counts at every node.
func TestSetvalByDrivers(t *testing.T) {
	c := use(t)
	s := c.Connect(1)
	s.Do("CREATE TABLE set_by_drivers (id serial PRIMARY KEY, v int)")
	c.Settled()
	above := func(node int, low int64) {
		t.Helper()
		var id int64
		o := c.Connect(node)
		for deadline := time.Now().Add(sqlTimeout); id <= low && time.Now().Before(deadline); time.Sleep(pollInterval) {
			if err := o.QueryRow(o.ctx(), "SELECT nextval('set_by_drivers_id_seq')").Scan(&id); err != nil {
				t.Fatal(err)
			}
		}
		if id <= low {
			t.Errorf("node %d gives %d after setval to %d", node, id, low)
		}
	}
	set := func(what string, want int64, sql string, args ...any) {
		t.Helper()
		var got int64
		if err := s.QueryRow(s.ctx(), sql, args...).Scan(&got); err != nil || got != want {
			t.Errorf("%s: %d, %v", what, got, Explain(err))
			return
		}
		above(2, want)
		above(1, want)
	}
	set("no parameters, simple", 1000, "SELECT setval('set_by_drivers_id_seq', 1000)", pgx.QueryExecModeSimpleProtocol)
	set("no parameters", 2000, "SELECT setval('set_by_drivers_id_seq', 2000)")
	set("prepared, binary", 3000, "SELECT setval('set_by_drivers_id_seq', $1)", 3000)
	set("prepared again", 4000, "SELECT setval('set_by_drivers_id_seq', $1)", 4000)
	set("all parameters", 5000, "SELECT setval($1, $2, $3)", "set_by_drivers_id_seq", 5000, true)
	set("text", 6000, "SELECT setval($1::text::regclass, $2)", pgx.QueryExecModeExec, "set_by_drivers_id_seq", 6000)
	set("the table's maximum", 7000, "SELECT setval(pg_get_serial_sequence('set_by_drivers', 'id'), "+
		"coalesce(max(id), $1)) FROM set_by_drivers", 7000)
	s.Do("BEGIN", "INSERT INTO set_by_drivers (v) VALUES (1)")
	var got int64
	if err := s.QueryRow(s.ctx(), "SELECT setval('set_by_drivers_id_seq', $1)", 9000).Scan(&got); err != nil ||
		got != 9000 {
		t.Errorf("in a block: %d %v", got, Explain(err))
	}
	s.Do("COMMIT")
	above(3, 9000)
	c.Check()
}

// TestPipelineWithoutSync has clients that send no Sync and wait: for an error, as PostgreSQL tells it at once, or for
// nothing.
func TestPipelineWithoutSync(t *testing.T) {
	c := use(t)
	c.Connect(1).Do("CREATE TABLE unsynced(k int PRIMARY KEY)")
	for _, listens := range []bool{false, true} {
		s := c.Connect(1)
		if listens {
			s.Do("LISTEN unsynced")
		}
		fe := s.PgConn().Frontend()
		say := func(texts ...string) {
			t.Helper()
			for _, sql := range texts {
				fe.Send(&pgproto3.Parse{Query: sql})
				fe.Send(&pgproto3.Bind{})
				fe.Send(&pgproto3.Execute{})
			}
			if err := fe.Flush(); err != nil {
				t.Fatal(err)
			}
		}
		hear := func(last string) (seen string) {
			t.Helper()
			if err := s.PgConn().Conn().SetReadDeadline(time.Now().Add(sqlTimeout)); err != nil {
				t.Fatal(err)
			}
			for !strings.HasSuffix(seen, last) {
				m, err := fe.Receive()
				if err != nil {
					t.Fatalf("after%s: %v", seen, err)
				}
				switch m := m.(type) {
				case *pgproto3.CommandComplete:
					seen += " " + string(m.CommandTag)
				case *pgproto3.ErrorResponse:
					seen += " " + m.Code
				case *pgproto3.ReadyForQuery:
					seen += " ready " + string(m.TxStatus)
				}
			}
			return seen
		}
		say("INSERT INTO unsynced VALUES (1)", "INSERT INTO unsynced VALUES (2)", "INSERT INTO unsynced VALUES (1)",
			"INSERT INTO unsynced VALUES (3)")
		if got, want := hear(" 23505"), " INSERT 0 1 INSERT 0 1 23505"; got != want {
			t.Errorf("got%s, want%s", got, want)
		}
		fe.Send(&pgproto3.Sync{})
		say("INSERT INTO unsynced VALUES (1)")
		hear(" INSERT 0 1")
		say("DELETE FROM unsynced", "CREATE TABLE unsynced_too()", "DROP TABLE unsynced_too")
		fe.Send(&pgproto3.Sync{})
		say()
		if got, want := hear(" ready I"), " DELETE 1 CREATE TABLE DROP TABLE ready I"; got != want {
			t.Errorf("got%s, want%s", got, want)
		}
		say("CREATE TABLE unsynced_too()") // which is run with its Sync
		time.Sleep(500 * time.Millisecond)
		fe.Send(&pgproto3.Sync{})
		say("DROP TABLE unsynced_too")
		fe.Send(&pgproto3.Sync{})
		say()
		hear(" DROP TABLE ready I")
		if err := s.PgConn().Conn().SetReadDeadline(time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
	c.Everywhere("SELECT count(*) FROM unsynced", "0")
	c.Check()
}
