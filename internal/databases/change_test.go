package databases

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/pgtest"
	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// errBroken breaks a change off.
var errBroken = errors.New("broken off")

// world is a member as changes see it, with a PostgreSQL.
type world struct {
	*testing.T
	server   *pgtest.Server
	main     string // its main database
	o        Options
	replicas map[uint64]string
	calls    []string // about replicas
	progress uint64
	broken   bool // the next note breaks off
}

func (w *world) Start(id uint64, name string) error {
	w.calls = append(w.calls, fmt.Sprintf("start %d %s", id, name))
	if w.replicas[id] != "" {
		w.Errorf("database %d has two replicas", id)
	}
	w.replicas[id] = name
	return nil
}

func (w *world) End(id uint64) {
	w.calls = append(w.calls, fmt.Sprintf("end %d", id))
	delete(w.replicas, id)
}

func (w *world) Runs(id uint64) bool { return w.replicas[id] != "" }

func (w *world) Retire(id, dropped uint64) error {
	w.calls = append(w.calls, fmt.Sprintf("retire %d at %d", id, dropped))
	return nil
}

func (w *world) Note(ctx context.Context, last uint64, sql string, args ...any) error {
	if w.broken {
		w.broken = false
		return errBroken
	}
	if _, err := w.o.List.Exec(ctx, sql, args...); err != nil {
		return err
	}
	return w.NoteProgress(ctx, last)
}

func (w *world) NoteProgress(_ context.Context, last uint64) error {
	w.progress = last
	return nil
}

// newWorld makes one whose list is empty. Databases of it have the main one's name and a suffix.
func newWorld(t *testing.T) *world {
	w := &world{T: t, server: pgtest.Shared(t), replicas: map[uint64]string{}}
	w.main = w.server.NewDatabase(t)
	w.server.Exec(t, w.main, `CREATE SCHEMA tutti`, `CREATE TABLE tutti.database (id int8 PRIMARY KEY,
		name text COLLATE "C" NOT NULL, state text NOT NULL, dropped int8 NOT NULL DEFAULT 0,
		voters int4[], learners int4[])`)
	w.o = Options{Log: slog.New(slog.DiscardHandler), Replicas: w, Progress: w, List: w.server.Connect(t, w.main),
		Conn: w.server.Connect(t, w.main).PgConn()}
	return w
}

// name is a name of a database or a role that no other test uses.
func (w *world) name(suffix string) string { return w.main + "_" + suffix }

// carry carries a statement out at an ordinal, as a role if that is not empty.
func (w *world) carry(ordinal uint64, role string, d semantics.Database) (session.Result, error) {
	w.Helper()
	sql := map[semantics.DatabaseChange]string{
		semantics.CreatesDatabase: "CREATE DATABASE " + d.Name,
		semantics.RenamesDatabase: "ALTER DATABASE " + d.Name + " RENAME TO " + d.To,
	}[d.Does]
	return Carry(context.Background(), w.o, ordinal+1, ordinal, session.Definition{SQL: sql,
		Cluster: semantics.Cluster{Database: d}, ByVoters: w.o.Voters != nil,
		Settings: []session.Setting{{Name: session.RoleSetting, Value: role}}})
}

// does fails unless a change does what it says.
func (w *world) does(ordinal uint64, d semantics.Database) session.Result {
	w.Helper()
	r, err := w.carry(ordinal, "postgres", d)
	if err != nil || r.Err != nil || w.progress != ordinal+1 {
		w.Fatalf("%v, %v, progress %d", err, r.Err, w.progress)
	}
	return r
}

// refuses fails unless a change is refused, and dealt with.
func (w *world) refuses(ordinal uint64, role string, d semantics.Database, code string) {
	w.Helper()
	r, err := w.carry(ordinal, role, d)
	if err != nil || r.Err == nil || r.Err.Code != code || w.progress != ordinal+1 {
		w.Fatalf("%v, %v, progress %d, want %s", err, r.Err, w.progress, code)
	}
}

// breaks fails unless a change is broken off, in front of the progress.
func (w *world) breaks(ordinal uint64, d semantics.Database) {
	w.Helper()
	w.broken = true
	was := w.progress
	if r, err := w.carry(ordinal, "postgres", d); !errors.Is(err, errBroken) || w.progress != was {
		w.Fatalf("it is not broken off: %+v, %v", r, err)
	}
}

// is compares the list, and what was said about replicas since, and whether PostgreSQL has databases.
func (w *world) is(list, calls string, there ...string) {
	w.Helper()
	all, err := List(context.Background(), w.o.List)
	if err != nil {
		w.Fatal(err)
	}
	got := ""
	for _, d := range all {
		got += fmt.Sprintf("%d %s %s %d; ", d.ID, strings.TrimPrefix(d.Name, w.name("")), d.State, d.Dropped)
	}
	if got != list {
		w.Errorf("the list is %q, want %q", got, list)
	}
	if got := strings.ReplaceAll(strings.Join(w.calls, ", "), w.name(""), ""); got != calls {
		w.Errorf("replicas: %q, want %q", got, calls)
	}
	w.calls = nil
	rows, err := w.o.List.Query(context.Background(),
		"SELECT datname FROM pg_database WHERE datname LIKE $1 ORDER BY 1",
		strings.ReplaceAll(w.name(""), "_", `\_`)+"%")
	if err != nil {
		w.Fatal(err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		w.Fatal(err)
	}
	if got := strings.ReplaceAll(strings.Join(names, " "), w.name(""), ""); got != strings.Join(there, " ") {
		w.Errorf("PostgreSQL has %q, want %q", got, there)
	}
}

func (w *world) creates(suffix string) semantics.Database {
	return semantics.Database{Does: semantics.CreatesDatabase, Name: w.name(suffix)}
}

func (w *world) drops(suffix string) semantics.Database {
	return semantics.Database{Does: semantics.DropsDatabase, Name: w.name(suffix)}
}

func (w *world) renames(from, to string) semantics.Database {
	return semantics.Database{Does: semantics.RenamesDatabase, Name: w.name(from), To: w.name(to)}
}

// TestCreate (DB1, DB3): a database is open when it is there; one that is half made is made anew; one that cannot be is
// refused, and the list forgets it.
func TestCreate(t *testing.T) {
	w := newWorld(t)
	if r := w.does(5, w.creates("a")); r.Tag != "CREATE DATABASE" {
		t.Errorf("it says %q", r.Tag)
	}
	w.is("5 a open 0; ", "start 5 a", "a")
	w.o.Voters = []uint32{1, 4}
	w.breaks(7, w.creates("b"))
	for id, want := range map[uint64][]uint32{5: nil, 7: {1, 4}} { // order-free: each for itself
		voters, _, err := First(context.Background(), w.server.ConnString(w.main), id)
		if err != nil || !slices.Equal(voters, want) {
			t.Errorf("%v vote at first on database %d: %v", voters, id, err)
		}
	}
	w.is("5 a open 0; 7 b creating 0; ", "", "a", "b")
	w.server.Exec(t, w.name("b"), "CREATE TABLE half_made()")
	w.does(7, w.creates("b"))
	w.is("5 a open 0; 7 b open 0; ", "start 7 b", "a", "b")
	var half bool
	if err := w.server.Connect(t, w.name("b")).QueryRow(context.Background(),
		"SELECT to_regclass('half_made') IS NOT NULL").Scan(&half); err != nil || half {
		t.Errorf("what was half made is kept: %v", err)
	}
	w.server.Exec(t, w.name("a"), "CREATE TABLE kept()")
	w.breaks(9, w.creates("a")) // before it is noted that it is refused
	w.refuses(9, "postgres", w.creates("a"), wire.CodeDuplicateDatabase)
	w.server.Exec(t, w.name("a"), "TABLE kept")
	w.server.Exec(t, "postgres", "CREATE ROLE "+w.name("poor"))
	w.refuses(11, w.name("poor"), w.creates("c"), wire.CodeInsufficientPrivilege)
	w.is("5 a open 0; 7 b open 0; ", "", "a", "b")
	r := w.o.Conn.ExecParams(context.Background(), "SELECT current_user", nil, nil, nil, nil).Read()
	if r.Err != nil || string(r.Rows[0][0]) != "postgres" {
		t.Errorf("the connection is left to role %s, %v", r.Rows, r.Err)
	}
}

// TestFirst (DB5): as long as nobody has come or gone, all vote at first on a database whose creation does not say
// more; later those members do who vote where it stands, or all if none of them is left.
func TestFirst(t *testing.T) {
	later := &config.Roster{Ordinal: 3, Members: []config.Member{{Member: 2}, {Member: 4}}, First: []uint32{1, 2}}
	witnessed := &config.Roster{Ordinal: 3, Members: later.Members, First: []uint32{1, 2},
		Witnesses: []config.Member{{Member: 5, Role: config.Witness}}}
	after := &config.Roster{Ordinal: 4, Members: []config.Member{{Member: 4}}, First: []uint32{1, 2}}
	for _, x := range []struct {
		about  string
		by     bool
		voters []uint32
		roster *config.Roster
		want   string
	}{
		{"it was ordered by one who does not know all", false, []uint32{1, 2}, nil, "[] []"},
		{"who votes", true, []uint32{1, 2}, nil, "[1 2] []"},
		{"all vote", true, nil, nil, "[] []"},
		{"of those of the beginning", true, nil, later, "[2] [4]"},
		{"who is gone does not", true, []uint32{1, 4}, later, "[4] [2]"},
		{"even if it does not say so", false, []uint32{1, 4}, later, "[4] [2]"},
		{"nobody is left who votes", false, []uint32{1}, later, "[2 4] []"},
		{"nobody is left of the beginning", true, nil, after, "[4] []"},
		{"a witness votes", true, []uint32{2, 5}, witnessed, "[2 5] [4]"},
		{"a witness does not vote", true, []uint32{2}, witnessed, "[2] [4 5]"},
		{"nobody but a witness is left who votes", true, []uint32{1, 5}, witnessed, "[2 4] [5]"},
	} {
		c := change{Options: Options{Voters: x.voters, Roster: x.roster},
			Definition: session.Definition{ByVoters: x.by}}
		voters, learners := c.first()
		if got := fmt.Sprint(voters, learners); got != x.want || x.roster != nil && learners == nil {
			t.Errorf("%s: %s, want %s", x.about, got, x.want)
		}
	}
}

// TestBegin: the first databases are listed once, under numbers that no ordinal reaches; what has become of them since
// stays.
func TestBegin(t *testing.T) {
	w := newWorld(t)
	names := []string{w.name("a"), w.name("b")}
	for range 2 {
		if err := Begin(context.Background(), w.o.List, names); err != nil {
			t.Fatal(err)
		}
		w.is("4611686018427387904 a open 0; 4611686018427387905 b open 0; ", "")
	}
	w.server.Exec(t, w.main, "UPDATE tutti.database SET name = 'c' WHERE name = '"+names[0]+"'")
	if err := Begin(context.Background(), w.o.List, names); err != nil {
		t.Fatal(err)
	}
	w.is("4611686018427387904 c open 0; 4611686018427387905 b open 0; ", "")
}

// TestDrop (DB1, DB2, DB3): a replica ends before its database does, whose log is kept then. Who is connected loses the
// connection. What was broken off is done again.
func TestDrop(t *testing.T) {
	w := newWorld(t)
	w.server.Exec(t, "postgres", "CREATE ROLE "+w.name("poor"), "CREATE DATABASE "+w.name("foreign"))
	w.does(5, w.creates("a"))
	w.does(6, w.creates("b"))
	w.calls = nil
	w.refuses(7, w.name("poor"), w.drops("a"), wire.CodeInsufficientPrivilege)
	w.refuses(8, "postgres", w.drops("foreign"), wire.CodeFeatureNotSupported)
	w.refuses(9, "postgres", w.drops("none"), wire.CodeInvalidCatalogName)
	missing := w.drops("none")
	missing.IfExists = true
	if r := w.does(10, missing); len(r.Notices) != 1 || r.Tag != "DROP DATABASE" ||
		!strings.Contains(string(r.Notices[0]), "does not exist, skipping") {
		t.Errorf("%q, notices %q", r.Tag, r.Notices)
	}
	w.is("5 a open 0; 6 b open 0; ", "", "a", "b", "foreign")
	w.server.Connect(t, w.name("a"))
	w.breaks(11, w.drops("a"))
	w.is("5 a dropping 0; 6 b open 0; ", "end 5", "b", "foreign")
	w.does(11, w.drops("a"))
	w.is("5 a dropped 11; 6 b open 0; ", "end 5, retire 5 at 11", "b", "foreign")
	w.refuses(12, "postgres", w.drops("a"), wire.CodeInvalidCatalogName)
	w.does(13, w.creates("a"))
	w.is("5 a dropped 11; 6 b open 0; 13 a open 0; ", "start 13 a", "a", "b", "foreign")
	for _, id := range []uint64{5, 6} { // the second is not dropped
		if _, err := w.o.List.Exec(context.Background(), ForgetSQL(id)); err != nil {
			t.Fatal(err)
		}
	}
	w.is("6 b open 0; 13 a open 0; ", "", "a", "b", "foreign")
}

// TestRename (DB1, DB2, DB3): a database that is renamed has its replica under the new name; one that cannot be, under
// the old one. Who is connected loses the connection. What was broken off is done again.
func TestRename(t *testing.T) {
	w := newWorld(t)
	w.does(5, w.creates("a"))
	w.does(6, w.creates("b"))
	w.calls = nil
	w.server.Connect(t, w.name("a"))
	if r := w.does(7, w.renames("a", "c")); r.Tag != "ALTER DATABASE" {
		t.Errorf("it says %q", r.Tag)
	}
	w.is("5 c open 0; 6 b open 0; ", "end 5, start 5 c", "b", "c")
	w.refuses(8, "postgres", w.renames("c", "b"), wire.CodeDuplicateDatabase)
	w.is("5 c open 0; 6 b open 0; ", "end 5, start 5 c", "b", "c")
	w.refuses(9, "postgres", w.renames("none", "d"), wire.CodeInvalidCatalogName)
	w.is("5 c open 0; 6 b open 0; ", "", "b", "c")
	w.breaks(10, w.renames("c", "d"))
	w.is("5 c open 0; 6 b open 0; ", "end 5", "b", "d")
	w.does(10, w.renames("c", "d"))
	w.is("5 d open 0; 6 b open 0; ", "start 5 d", "b", "d")
	w.breaks(11, w.renames("d", "e"))
	w.replicas[5] = w.name("e") // it has been started since
	w.does(11, w.renames("d", "e"))
	w.is("5 e open 0; 6 b open 0; ", "end 5", "b", "e")
}
