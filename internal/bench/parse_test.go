package bench

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const pgbenchOutput = `pgbench (15.20 (Debian 15.20-0+deb12u1))
transaction type: <builtin: TPC-B (sort of)>
scaling factor: 10
query mode: prepared
number of clients: 8
number of threads: 1
maximum number of tries: 1000
duration: 5 s
number of transactions actually processed: 1534
number of failed transactions: 3 (0.195%)
number of transactions retried: 420 (27.379%)
total number of retries: 1021
latency average = 26.071 ms
initial connection time = 14.061 ms
tps = 306.852216 (without initial connection time)
`

func TestParsePgbench(t *testing.T) {
	got, err := parsePgbench(pgbenchOutput)
	want := outcome{transactions: 1534, tps: 306.852216, meanMs: 26.071, aborts: 1021, failed: 3}
	if err != nil || got.transactions != want.transactions || got.tps != want.tps || got.meanMs != want.meanMs ||
		got.aborts != want.aborts || got.failed != want.failed {
		t.Errorf("got %+v (%v), want %+v", got, err, want)
	}
	// Without --max-tries there is no line on retries; the latency may have a note.
	plain := strings.ReplaceAll(pgbenchOutput, "total number of retries: 1021\n", "")
	plain = strings.ReplaceAll(plain, "26.071 ms", "26.071 ms (including failures)")
	if got, err := parsePgbench(plain); err != nil || got.aborts != 0 || got.meanMs != 26.071 {
		t.Errorf("got %+v (%v)", got, err)
	}
	for _, without := range []string{"tps", "number of transactions actually processed"} {
		if _, err := parsePgbench(strings.ReplaceAll(pgbenchOutput, without, "other")); err == nil ||
			!strings.Contains(err.Error(), without) {
			t.Errorf("without %s: %v", without, err)
		}
	}
}

func TestReadPgbenchLog(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "log")
	log := "0 199 2241 0 1175850568 995598 0\n1 200 failed 0 1175850569 608 11\n2 201 2513 0 1175850569 608 0\n"
	if err := os.WriteFile(file, []byte(log), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := readPgbenchLog(file, []bucket{{1, 1}})
	if err != nil || len(got) != 3 || got[1] != (bucket{2.241, 1}) || got[2] != (bucket{2.513, 1}) {
		t.Errorf("got %v (%v)", got, err)
	}
	if err := os.WriteFile(file, []byte("1175850568 10 20\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readPgbenchLog(file, nil); err == nil {
		t.Error("an aggregated log is taken for a transaction log")
	}
}

const sysbenchOutput = `sysbench 1.0.20 (using system LuaJIT 2.1.0-beta3)

Running the test with following options:
Number of threads: 3

Latency histogram (values are in milliseconds)
       value  ------------- distribution ------------- count
       2.106 |**                                        3
      11.445 |****************************************  50
     104.837 |                                          1

SQL statistics:
    queries performed:
        read:                            0
        write:                           216
        other:                           108
        total:                           330
    transactions:                        54     (27.00 per sec.)
    queries:                             330    (165.00 per sec.)
    ignored errors:                      6      (3.00 per sec.)
    reconnects:                          0      (0.00 per sec.)

General statistics:
    total time:                          2.0000s
    total number of events:              54

Latency (ms):
         min:                                    2.09
         avg:                                   12.36
         max:                                  105.50
         95th percentile:                       11.45
         sum:                                  667.44

Threads fairness:
    events (avg/stddev):           18.0000/1.20
    execution time (avg/stddev):   2.0/0.00
`

func TestParseSysbench(t *testing.T) {
	got, err := parseSysbench(sysbenchOutput)
	if err != nil || got.transactions != 54 || got.tps != 27 || got.meanMs != 12.36 || got.aborts != 6 {
		t.Errorf("got %+v (%v)", got, err)
	}
	if len(got.latencies) != 3 || got.latencies[1] != (bucket{11.445, 50}) {
		t.Errorf("histogram %v", got.latencies)
	}
	if p := percentile(got.latencies, 0.95); p != 11.445 {
		t.Errorf("95th percentile %v, sysbench says 11.45", p)
	}
	if _, err := parseSysbench("FATAL: unable to connect"); err == nil {
		t.Error("an output without figures is taken")
	}
}

func TestPercentile(t *testing.T) {
	var hundred []bucket
	for i := 100; i > 0; i-- {
		hundred = append(hundred, bucket{float64(i), 1})
	}
	for _, c := range []struct {
		of    []bucket
		share float64
		want  float64
	}{{nil, 0.95, 0}, {hundred, 0.95, 95}, {hundred, 1, 100}, {[]bucket{{7, 19}, {100, 1}}, 0.95, 7},
		{[]bucket{{7, 18}, {100, 2}}, 0.95, 100}} {
		if got := percentile(c.of, c.share); got != c.want {
			t.Errorf("%v of %v: %v, want %v", c.share, c.of, got, c.want)
		}
	}
}

func TestMergedOutcome(t *testing.T) {
	var all outcome
	all.add(outcome{transactions: 10, tps: 5, meanMs: 2, aborts: 1, cpu: time.Second})
	all.add(outcome{transactions: 30, tps: 15, meanMs: 4, failed: 2, cpu: time.Second})
	if all.transactions != 40 || all.tps != 20 || all.meanMs != 3.5 || all.aborts != 1 || all.failed != 2 ||
		all.cpu != 2*time.Second {
		t.Errorf("%+v", all)
	}
}

func TestParseStat(t *testing.T) {
	const rest = " S 9739 9739 5654 0 -1 4194304 98 0 0 0 150 25 1000 200 20 0 1 0 67512 3133440 360"
	for name, stat := range map[string]string{"plain": "9742 (cat)" + rest, "hostile": "9742 (a) R 1 (b c)" + rest} {
		got, err := parseStat([]byte(stat))
		if err != nil || got.own != 1750*time.Millisecond || got.reaped != 12*time.Second {
			t.Errorf("%s: %+v (%v)", name, got, err)
		}
	}
	for _, bad := range []string{"", "9742 cat S 1", "9742 (cat) S 1 2 3",
		strings.Replace("9742 (cat)"+rest, " 150 ", " x ", 1)} {
		if _, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestParseMachine(t *testing.T) {
	got, err := parseMachine([]byte("cpu  195731 130637 214258 234046 5186 3 24663 693 7 7\ncpu0 1 2\n"))
	if want := (machineTimes{busy: 565985 * userTick, all: 805217 * userTick}); err != nil || got != want {
		t.Errorf("%+v (%v), want %+v", got, err, want)
	}
	for _, bad := range []string{"", "cpu0 1 2 3 4 5 6 7 8", "cpu 1 2 3 4 5 6 7", "cpu 1 2 3 4 5 6 7 x"} {
		if _, err := parseMachine([]byte(bad)); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestTitles(t *testing.T) {
	for title, want := range map[string]bool{
		"postgres: checkpointer ":                true,
		"postgres: walwriter ":                   true,
		"postgres: autovacuum worker postgres":   true,
		"postgres: postgres postgres [local] x":  false,
		"postgres: startup_user db 127.0.0.1(1)": false,
		"/usr/lib/postgresql/15/bin/postgres":    false,
	} {
		if got := isHelper(title); got != want {
			t.Errorf("%q: %v", title, got)
		}
	}
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-9 }
