package bench

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// sysbench runs the OLTP scripts that come with sysbench 1.0. Its driver repeats
// transactions that end with 40001, 40P01 or 23505, and counts them as ignored errors.
type sysbench struct {
	program           string
	tables, tableSize int
	randType          string
}

// connection is how sysbench reaches a server and which tables it uses there. Row numbers are
// sysbench's own: Tutti's sequences skip, so serial ones would leave gaps.
func (s sysbench) connection(test string, c *client) []string {
	return []string{"oltp_" + test, "--db-driver=pgsql", "--pgsql-host=" + c.host, "--pgsql-port=" + c.port, "--pgsql-user=postgres",
		"--pgsql-db=" + c.dbname, "--auto_inc=off", "--tables=" + strconv.Itoa(s.tables), "--table_size=" + strconv.Itoa(s.tableSize)}
}

func (s sysbench) command(l *load, c *client) (string, []string) {
	statements := "auto"
	if l.mode == simple {
		statements = "disable"
	}
	return s.program, append(s.connection(l.name, c), "--db-ps-mode="+statements,
		"--threads="+strconv.Itoa(c.clients), "--time="+strconv.Itoa(c.seconds),
		"--rand-type="+s.randType, "--rand-seed="+strconv.Itoa(c.seed), "--percentile=95", "--histogram=on", "run")
}

func (s sysbench) parse(_ *client, output string) (outcome, error) { return parseSysbench(output) }

var (
	sysbenchFigures   = regexp.MustCompile(`(?m)^\s+(transactions|ignored errors|total time|avg):\s+([0-9.]+)`)
	sysbenchHistogram = regexp.MustCompile(`(?m)^\s*([0-9.]+) \|\**\s+([0-9]+)\s*$`)
)

// parseSysbench reads the summary and the histogram of latencies.
func parseSysbench(output string) (o outcome, err error) {
	found := map[string]float64{}
	for _, m := range sysbenchFigures.FindAllStringSubmatch(output, -1) {
		if found[m[1]], err = strconv.ParseFloat(m[2], 64); err != nil {
			return o, fmt.Errorf("%s: %w", m[1], err)
		}
	}
	if found["total time"] == 0 || !strings.Contains(output, "transactions:") {
		return o, errors.New("no transactions and total time in the output")
	}
	o = outcome{
		transactions: int64(found["transactions"]), tps: found["transactions"] / found["total time"],
		meanMs: found["avg"], aborts: int64(found["ignored errors"]),
	}
	for _, m := range sysbenchHistogram.FindAllStringSubmatch(output, -1) {
		ms, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			return o, err
		}
		n, err := strconv.ParseInt(m[2], 10, 64)
		if err != nil {
			return o, err
		}
		o.latencies = append(o.latencies, bucket{ms, n})
	}
	return o, nil
}
