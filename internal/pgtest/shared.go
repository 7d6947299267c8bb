package pgtest

import (
	"fmt"
	"os"
	"sync"
	"testing"
)

var shared struct {
	sync.Mutex
	main   bool // Main runs the tests, and will stop the server
	server *Server
}

// Shared returns the server that all tests of this binary share, started on first use. The
// package needs Main in its TestMain. Use NewDatabase to keep tests apart, and do not Kill
// or Restart it in parallel tests.
func Shared(t testing.TB) *Server {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if !shared.main {
		t.Fatal("pgtest: Shared needs `func TestMain(m *testing.M) { pgtest.Main(m) }` in this package")
	}
	if shared.server == nil {
		s, err := start(nil)
		if err != nil {
			t.Fatalf("pgtest: %v", err)
		}
		shared.server = s
	}
	return shared.server
}

// Main runs a package's tests, stops the shared server and exits.
func Main(m *testing.M) {
	os.Exit(run(m.Run))
}

func run(tests func() int) (code int) {
	shared.Lock()
	shared.main = true
	shared.Unlock()
	code = tests()
	shared.Lock()
	defer shared.Unlock()
	if shared.server == nil {
		return code
	}
	if err := shared.server.close(); err != nil {
		fmt.Fprintln(os.Stderr, "pgtest:", err)
		code = max(code, 1)
	}
	shared.server = nil
	return code
}
