package probe

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"go.uber.org/goleak"

	"github.com/tuttidb/tutti/internal/flow"
	"github.com/tuttidb/tutti/internal/metrics"
	"github.com/tuttidb/tutti/internal/replica"
)

func options() Options {
	return Options{
		Metrics: metrics.New(), Log: slog.New(slog.DiscardHandler),
		Facts: func(database string) (Facts, bool) {
			return Facts{Reach: replica.Reach{Members: 3, Heard: 3, Led: true}}, database == "" || database == "shop"
		},
		Status: func() ([]string, [][]string, bool) {
			return []string{"member", "state"}, [][]string{{"node1", "synced"}, {"node2", "unreachable"}}, true
		},
	}
}

// get asks a handler.
func get(o Options, method, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h := o.handler()
	h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
	return w
}

// TestPaths: what each path answers, and that there are no others.
func TestPaths(t *testing.T) {
	starting := options()
	starting.Facts = func(string) (Facts, bool) { return Facts{Starting: true}, true }
	starting.Status = func() ([]string, [][]string, bool) { return nil, nil, false }
	for _, c := range []struct {
		o            Options
		method, path string
		code         int
		body         string
	}{
		{options(), "GET", "/live", 200, "live\n"},
		{starting, "GET", "/live", 200, "live\n"},
		{options(), "HEAD", "/live", 200, ""},
		{options(), "GET", "/ready", 200, "ready\n"},
		{options(), "GET", "/ready?database=shop&for=reads&lag=5s", 200, "ready\n"},
		{options(), "GET", "/ready?database=other", 404, "other"},
		{options(), "GET", "/ready?for=both", 400, "use reads or writes"},
		{starting, "GET", "/ready", 503, "starting"},
		{starting, "GET", "/status", 503, "starting"},
		{options(), "POST", "/live", 405, "GET"},
		{options(), "POST", "/metrics", 405, "GET"},
		{options(), "GET", "/", 404, ""},
		{options(), "GET", "/debug/pprof/", 404, ""},
		{options(), "GET", "/metrics", 200, "# HELP tutti_log_syncs_total "},
		{options(), "GET", "/metrics", 200, "go_goroutines"},
		{options(), "GET", "/metrics", 200, "process_open_fds"},
	} {
		if strings.Contains(c.body, "tutti_log") {
			defer c.o.Metrics.Enter("shop", &metrics.Database{}, nil)()
		}
		w := get(c.o, c.method, c.path)
		if w.Code != c.code || c.method == "GET" && !strings.Contains(w.Body.String(), c.body) {
			t.Errorf("%s %s: %d %q, want %d %q", c.method, c.path, w.Code, w.Body, c.code, c.body)
		}
	}
}

// TestStatus: the same as tutti status -o json.
func TestStatus(t *testing.T) {
	w := get(options(), "GET", "/status")
	var rows []map[string]string
	err := json.Unmarshal(w.Body.Bytes(), &rows)
	if kind := w.Header().Get("Content-Type"); err != nil || kind != "application/json" {
		t.Fatalf("%v, %s: %s", err, kind, w.Body)
	}
	if fmt.Sprint(rows) != "[map[member:node1 state:synced] map[member:node2 state:unreachable]]" {
		t.Errorf("%v", rows)
	}
}

// TestLint: what is exposed follows Prometheus' rules, with every kind of metric in use, and has what was counted.
func TestLint(t *testing.T) {
	o := options()
	d := &metrics.Database{}
	defer o.Metrics.Enter("shop \"1\"\n", d, nil)()
	d.Transactions.Conflicts.Add("public", "accounts", "key")
	d.Transactions.Phases.Observe(metrics.PhaseWhole, 3*time.Millisecond)
	d.Waits.Begin(flow.WaitTurn).End()
	text := get(o, "GET", "/metrics").Body.Bytes()
	problems, err := promlint.New(bytes.NewReader(text)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	for _, line := range []string{
		`tutti_conflicts_total{cause="key",database="shop \"1\"\n",schema="public",table="accounts"} 1`,
		`tutti_commit_phase_duration_seconds_bucket{database="shop \"1\"\n",phase="whole",le="0.005"} 1`,
		`tutti_wait_duration_seconds_count{database="shop \"1\"\n",wait="turn"} 1`,
	} {
		if !bytes.Contains(text, []byte(line+"\n")) {
			t.Errorf("%s is missing", line)
		}
	}
}

// TestRate: more requests in a second than allowed are turned away, and the next second is a new one.
func TestRate(t *testing.T) {
	now := time.Unix(1, 0)
	r := &rate{most: 2, now: func() time.Time { return now }}
	var got []bool
	for range 3 {
		got = append(got, r.allows())
	}
	now = time.Unix(2, 0)
	if got = append(got, r.allows()); fmt.Sprint(got) != "[true true false true]" {
		t.Errorf("%v", got)
	}
	o := options()
	h := o.handler()
	codes := map[int]int{}
	for range 3 * scrapesMax { // at most two seconds' worth go through
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		codes[w.Code]++
	}
	if codes[200] == 0 || codes[429] < scrapesMax || codes[200]+codes[429] != 3*scrapesMax {
		t.Errorf("%v", codes)
	}
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, httptest.NewRequest("GET", "/ready", nil)); w.Code != 200 {
		t.Errorf("scrapes keep a load balancer out: %d", w.Code)
	}
}

// serve runs a port until the end of the test.
func serve(t *testing.T, o Options) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); Serve(ctx, ln, o) }()
	t.Cleanup(func() { cancel(); <-done; goleak.VerifyNone(t) })
	return ln.Addr().String()
}

// ask sends a request as it is, and gives the first line of the answer.
func ask(t *testing.T, address, request string) string {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.WriteString(conn, request); err != nil {
		return err.Error()
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return err.Error()
	}
	return line
}

// TestSlowClients: clients that say nothing take all places for two seconds at most; then others are served again, and
// the port ends although clients are connected.
func TestSlowClients(t *testing.T) {
	address := serve(t, options())
	for range 2 * connectionsMax {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, "GET /live HTTP/1.1\r\n"); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	if line := ask(t, address, "GET /live HTTP/1.1\r\nHost: x\r\n\r\n"); !strings.Contains(line, "200 OK") {
		t.Errorf("behind slow clients: %q", line)
	}
	if took := time.Since(began); took < time.Second || took > 4*readTimeout {
		t.Errorf("it took %s: %d places, for %s each", took, connectionsMax, readTimeout)
	}
}

// TestHeadersAreBounded: what is read of one request has an end.
func TestHeadersAreBounded(t *testing.T) {
	address := serve(t, options())
	line := ask(t, address, "GET /live HTTP/1.1\r\nHost: x\r\nX: "+strings.Repeat("a", 64<<10)+"\r\n\r\n")
	if strings.Contains(line, "200") {
		t.Errorf("%q", line)
	}
	if line := ask(t, address, "GET /live HTTP/1.1\r\nHost: x\r\n\r\n"); !strings.Contains(line, "200 OK") {
		t.Errorf("%q", line)
	}
}

// TestConnectionsEnd: no connection is kept for a next request.
func TestConnectionsEnd(t *testing.T) {
	address := serve(t, options())
	r, err := http.Get("http://" + address + "/live")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if !r.Close {
		t.Error("the connection is kept")
	}
}
