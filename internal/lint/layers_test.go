package lint

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// kind says what a package may do.
type kind string

const (
	pure kind = "pure" // see R2
	edge kind = "IO"
	test kind = "tests" // imported by test files only
)

// layer is one row: what code outside tests may import.
type layer struct {
	kind  kind
	ours  string // packages below internal, separated by spaces
	third string // packages of third parties
}

const (
	pgx      = "github.com/jackc/pgx/v5"
	raft     = "go.etcd.io/raft/v3"
	protobuf = "google.golang.org/protobuf"
)

// layers is the architecture. Stages share the value writeset, never each other; ordering
// knows only bytes; node alone composes IO.
var layers = map[string]layer{
	"writeset":                {pure, "", ""},
	"semantics":               {pure, "", "github.com/pganalyze/pg_query_go/v6 " + protobuf + "/proto " + protobuf + "/reflect/protoreflect"},
	"session":                 {pure, "semantics wire writeset", "github.com/cespare/xxhash/v2"},
	"capture":                 {pure, "writeset", "github.com/cespare/xxhash/v2 " + pgx + "/pgtype"},
	"ordering":                {pure, "", raft + " " + raft + "/raftpb " + protobuf + "/proto"},
	"certify":                 {pure, "writeset", ""},
	"apply":                   {pure, "writeset", ""},
	"flow":                    {pure, "", ""},
	"lead":                    {pure, "", ""},
	"locks":                   {pure, "writeset", ""},
	"bootstrap":               {pure, "", ""},
	"engine":                  {pure, "certify locks ordering writeset", ""},
	"wire":                    {edge, "", ""},
	"raftlog":                 {edge, "", "github.com/gofrs/flock github.com/google/renameio/v2 " + raft + " " + raft + "/raftpb golang.org/x/sys/unix " + protobuf + "/proto"},
	"transport":               {edge, "", "golang.org/x/sys/unix"},
	"database/catalog":        {edge, "apply capture writeset", pgx + " " + pgx + "/pgconn"},
	"database/embedded":       {edge, "database/embedded/untar", "github.com/gofrs/flock github.com/xi2/xz"},
	"database/embedded/untar": {edge, "", ""},
	"database/instance":       {edge, "database/embedded database/embedded/untar process", "github.com/gofrs/flock github.com/google/renameio/v2 github.com/jackc/pglogrepl " + pgx + "/pgconn " + pgx + "/pgproto3"},
	"hba":                     {edge, "", ""},
	"config":                  {edge, "hba", "github.com/pelletier/go-toml/v2"},
	"collect":                 {edge, "capture database/catalog semantics session wire writeset", pgx + "/pgconn"},
	"database/link":           {edge, "apply capture locks", pgx + "/pgconn"},
	"failure":                 {edge, "database/embedded database/instance", pgx + "/pgconn"},
	"node": {edge, "apply bootstrap capture certify collect config database/catalog database/embedded database/instance database/link engine failure fault flow hba lead locks ordering process raftlog semantics session transport version wire writeset",
		pgx + " " + pgx + "/pgconn"},
	"version":   {edge, "", ""},
	"authority": {edge, "", "github.com/google/renameio/v2"},

	"admin":   {edge, "config", pgx + "/pgconn"},
	"demo":    {edge, "authority config database/embedded database/instance", "github.com/gofrs/flock github.com/google/renameio/v2 " + pgx + "/pgconn github.com/pelletier/go-toml/v2"},
	"bench":   {edge, "database/embedded database/instance demo", pgx + "/pgconn"},
	"process": {edge, "", "golang.org/x/sys/unix"},
	"fault":   {edge, "", "github.com/google/renameio/v2"},
	"chaos": {edge, "authority check config database/embedded database/instance fault process",
		pgx + " " + pgx + "/pgconn github.com/pelletier/go-toml/v2 golang.org/x/sys/unix"},
	"check":            {edge, "", ""},
	"sim":              {edge, "bootstrap certify check engine flow lead locks ordering writeset", raft + " " + raft + "/raftpb"},
	"pgtest":           {test, "database/embedded database/instance", "github.com/gofrs/flock " + pgx},
	"database/captest": {test, "", ""},
	"lint":             {test, "", ""},
}

// command is what cmd/tutti may import; it holds flags and no logic.
var command = layer{edge, "admin bench chaos config demo failure node process sim version", "github.com/spf13/cobra"}

// testTools are what test files may import from third parties beside what any package may.
var testTools = []string{"github.com/cockroachdb/datadriven", "pgregory.net/rapid", "go.uber.org/goleak", "github.com/pmezard/go-difflib/difflib"}

// testDatabase is what tests of any package may use to find and prepare a real PostgreSQL.
var testDatabase = []string{"database/catalog", "database/embedded", "collect"}

// banned may not be imported by pure packages: a name bans what is below it as well.
var banned = []string{"os", "net", "time", "sync", "context", "math/rand", "crypto/rand", "log", "syscall", "runtime", "unsafe", "plugin"}

func layerOf(pkg string) (layer, bool) {
	if pkg == "cmd/tutti" {
		return command, true
	}
	l, ok := layers[strings.TrimPrefix(pkg, "internal/")]
	return l, ok && strings.HasPrefix(pkg, "internal/")
}

// checkImports is R1 and the first half of R2 for one file.
func checkImports(s *source) (out []string) {
	l, ok := layerOf(s.pkg)
	if !ok {
		return []string{s.path + ": its package has no row in the table of layers"}
	}
	ours, third, std := s.imports()
	if s.test {
		return checkTestImports(s, l, ours, third)
	}
	for _, o := range ours {
		if !slices.Contains(strings.Fields(l.ours), strings.TrimPrefix(o, "internal/")) {
			out = append(out, fmt.Sprintf("%s: %s may not import %s", s.path, s.pkg, o))
		}
	}
	for _, p := range third {
		if !slices.Contains(strings.Fields(l.third), p) {
			out = append(out, fmt.Sprintf("%s: %s may not import %s", s.path, s.pkg, p))
		}
	}
	for _, p := range std {
		for _, b := range banned {
			if l.kind == pure && (p == b || strings.HasPrefix(p, b+"/")) {
				out = append(out, fmt.Sprintf("%s: %s is pure and may not import %s", s.path, s.pkg, p))
			}
		}
	}
	return out
}

// checkTestImports: tests may use the test packages, and the pure ones; of third parties what
// some package uses, and testTools.
func checkTestImports(s *source, l layer, ours, third []string) (out []string) {
	for _, o := range ours {
		name := strings.TrimPrefix(o, "internal/")
		to := layers[name]
		free := o == s.pkg || slices.Contains(testDatabase, name) || to.kind != edge || slices.Contains(strings.Fields(l.ours), name) || l.kind == test
		if !free {
			out = append(out, fmt.Sprintf("%s: tests of %s may not import %s", s.path, s.pkg, o))
		}
	}
	for _, p := range third {
		known := slices.Contains(testTools, p)
		for _, l := range layers {
			known = known || slices.Contains(strings.Fields(l.third), p)
		}
		if !known {
			out = append(out, fmt.Sprintf("%s: tests may not import %s", s.path, p))
		}
	}
	return out
}

func TestImports(t *testing.T) {
	used := map[string]bool{} // package and import
	for _, s := range tree(t) {
		report(t, checkImports(&s))
		if s.test {
			continue
		}
		ours, third, _ := s.imports()
		for _, i := range append(ours, third...) {
			used[s.pkg+" "+strings.TrimPrefix(i, "internal/")] = true
		}
	}
	for name, l := range layers {
		if _, err := os.Stat(filepath.Join(root(), "internal", name)); err != nil {
			t.Errorf("the table of layers has a row for %s, which does not exist", name)
		}
		for _, i := range strings.Fields(l.ours + " " + l.third) {
			if !used["internal/"+name+" "+i] {
				t.Errorf("the table of layers allows %s to import %s, which it does not", name, i)
			}
		}
	}
}

var codeSpan = regexp.MustCompile("`([^`]*)`")

// tableRows reads the layer table of ARCHITECTURE.md: package, kind, ours, third parties.
func tableRows(page string) map[string]layer {
	out := map[string]layer{}
	for line := range strings.Lines(page) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if !strings.HasPrefix(line, "| `") || len(cells) != 5 {
			continue
		}
		list := func(cell string) string {
			var names []string
			for _, m := range codeSpan.FindAllStringSubmatch(cell, -1) {
				names = append(names, m[1])
			}
			slices.Sort(names)
			return strings.Join(names, " ")
		}
		out[list(cells[0])] = layer{kind(strings.TrimSpace(cells[1])), list(cells[2]), list(cells[3])}
	}
	return out
}

func compareTable(page string) (out []string) {
	rows := tableRows(page)
	for name, want := range layers {
		for _, list := range []*string{&want.ours, &want.third} {
			names := strings.Fields(*list)
			slices.Sort(names)
			*list = strings.Join(names, " ")
		}
		if got, ok := rows[name]; !ok {
			out = append(out, "ARCHITECTURE.md: the layer table has no row for "+name)
		} else if got != want {
			out = append(out, fmt.Sprintf("ARCHITECTURE.md: the layer table's row for %s says\n  %+v, but layers_test.go\n  %+v", name, got, want))
		}
	}
	for name := range rows {
		if _, ok := layers[name]; !ok {
			out = append(out, "ARCHITECTURE.md: the layer table has a row for "+name+", which layers_test.go does not know")
		}
	}
	return out
}
