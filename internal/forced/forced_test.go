package forced

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/ordering"
	"github.com/tuttidb/tutti/internal/standing"
)

// node is one that does not run: its configuration, and a log for each of some databases.
func node(t *testing.T, other string, dirs ...string) (file string, c *config.Config) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "a [b]*?") // no pattern
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(dir, "node.toml")
	text := fmt.Sprintf("cluster = 'c'\nmember = 1\ndata_dir = '%s'\nlisten = '127.0.0.1:1'\nmember_listen = "+
		"'127.0.0.1:2'\nsecret = 'sixteen characters'\n[[members]]\nmember = 1\nname = 'a'\naddress = '127.0.0.1:2'\n"+
		"[[members]]\nmember = 2\nname = 'b'\naddress = '%s'\n", dir, other)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range dirs {
		path := filepath.Join(dir, name)
		if err := standing.New(c, nil, nil).CreateLog(7, path, []uint32{1, 2}, nil, nil); err != nil {
			t.Fatal(err)
		}
		disk, err := standing.OpenLog(path, c, nil)
		if err != nil {
			t.Fatal(err)
		}
		var entries []*pb.Entry
		for n := range uint64(i + 3) {
			entries = append(entries, &pb.Entry{Index: new(n + 1), Term: new(uint64(2)), Data: []byte("x")})
		}
		if err := disk.Append(&pb.HardState{Term: new(uint64(4)), Vote: new(uint64(2)), Commit: new(uint64(1))},
			entries, true); err != nil {
			t.Fatal(err)
		}
		if err := disk.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return file, c
}

// closed is an address at which nobody is.
func closed(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

// lost reports whether member 2 is, and nobody else.
func lost(t *testing.T, c *config.Config) bool {
	t.Helper()
	list, err := c.Lost()
	if err != nil || len(list) > 1 || len(list) == 1 && list[0] != 2 {
		t.Errorf("lost are %v, %v", list, err)
	}
	return len(list) > 0
}

func TestRun(t *testing.T) {
	file, c := node(t, closed(t), "log", "log-7", "log-8.removing", "log-first-0")
	for _, stray := range []string{"log-old", "log-007", "log-first-", "log-first-+1", "log-0", "log.copy"} {
		if err := os.Mkdir(filepath.Join(c.DataDir, stray), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	var out strings.Builder
	if err := Run(Options{Config: file, Format: "table"}, &out); err != nil || lost(t, c) {
		t.Fatal(err, lost(t, c))
	}
	for _, want := range []string{"log          2     3           1                    with others",
		"log-7        2     4           1                    with others",
		"log-first-0  2     6 ", "With --force this one goes on alone"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it lacks %q:\n%s", want, out.String())
		}
	}
	for _, before := range []bool{false, true} { // what was interrupted is done again
		out.Reset()
		if err := Run(Options{Config: file, Format: "json", Force: true}, &out); err != nil || !lost(t, c) {
			t.Fatal(err, lost(t, c))
		}
		var r Report
		if err := json.Unmarshal([]byte(out.String()), &r); err != nil {
			t.Fatal(err)
		}
		if len(r.Logs) != 3 || !r.Forced || r.Member != "a" || len(r.Answer) > 0 {
			t.Errorf("%+v", r)
		}
		for _, l := range r.Logs {
			if l.Forced != before {
				t.Errorf("%+v", l)
			}
		}
	}
	disk, err := standing.OpenLog(filepath.Join(c.DataDir, "log-7"), c, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer disk.Close()
	f, err := ordering.Force(disk, 1)
	if err != nil || f.State != nil || f.Last != 5 || f.Known != 5 || f.Term < 1<<20 {
		t.Errorf("the log is left as %+v, %v", f, err)
	}
	if text, err := os.ReadFile(filepath.Join(c.DataDir, "log-8.removing", "incarnation")); err != nil {
		t.Errorf("a log that is none any more: %q, %v", text, err)
	}
}

// TestRefused: somebody else is there, or the node runs, or it has nothing, or nothing that belongs to it; then nothing
// is changed.
func TestRefused(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	for _, x := range []struct {
		about, other, want string
		o                  Options
		also               func(t *testing.T, c *config.Config)
	}{
		{about: "another one", other: ln.Addr().String(), o: Options{Force: true}, want: "nothing was changed: b ("},
		{about: "it runs", o: Options{Force: true}, want: "The node must not run",
			also: func(t *testing.T, c *config.Config) {
				disk, err := standing.OpenLog(filepath.Join(c.DataDir, "log-7"), c, nil)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { disk.Close() })
			}},
		{about: "no log", o: Options{Force: true}, want: "only a member that has one can go on",
			also: func(t *testing.T, c *config.Config) {
				if err := os.RemoveAll(filepath.Join(c.DataDir, "log")); err != nil {
					t.Fatal(err)
				}
			}},
		{about: "another user", o: Options{Force: true}, want: "belongs to the user with id 54321",
			also: func(t *testing.T, c *config.Config) {
				if os.Geteuid() != 0 {
					t.Skip("only root can give files away")
				}
				if err := os.Chown(filepath.Join(c.DataDir, "log", "identity"), 54321, -1); err != nil {
					t.Fatal(err)
				}
			}},
		{about: "a witness", o: Options{Force: true}, want: "a is a witness, and has no database",
			also: func(t *testing.T, c *config.Config) {
				file := filepath.Join(c.DataDir, "node.toml")
				text, err := os.ReadFile(file)
				if err == nil {
					err = os.WriteFile(file, append([]byte("witness = true\n"), text...), 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
			}},
		{about: "one that the file does not name", o: Options{Force: true},
			want: "member 9 gets that log as well, and [[members]] does not say",
			also: func(t *testing.T, c *config.Config) {
				if err := standing.New(c, nil, nil).CreateLog(7, filepath.Join(c.DataDir, "log-8"), []uint32{1, 2, 9},
					nil, nil); err != nil {
					t.Fatal(err)
				}
			}},
		{about: "another format", o: Options{Format: "xml"}, want: "use table or json"},
		{about: "no configuration", o: Options{Config: "none"}, want: "none"},
	} {
		t.Run(x.about, func(t *testing.T) {
			if x.other == "" {
				x.other = closed(t)
			}
			file, c := node(t, x.other, "log", "log-7")
			if x.also != nil {
				x.also(t, c)
			}
			o, out := x.o, strings.Builder{}
			if o.Config == "" {
				o.Config = file
			}
			if o.Format == "" {
				o.Format = "table"
			}
			if err := Run(o, &out); err == nil || !strings.Contains(err.Error(), x.want) || lost(t, c) {
				t.Errorf("%v, %v, not %q", err, lost(t, c), x.want)
			}
			if disk, err := standing.OpenLog(filepath.Join(c.DataDir, "log"), c, nil); err == nil {
				defer disk.Close()
				if f, err := ordering.Force(disk, 1); err != nil || f.Entries == nil {
					t.Errorf("the log is changed: %+v, %v", f, err)
				}
			}
		})
	}
}
