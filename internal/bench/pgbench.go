package bench

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// pgbench runs PostgreSQL's own load generator.
type pgbench struct{ program string }

// triesMax is pgbench's --max-tries: a transaction is repeated until it commits.
const triesMax = 1000

func (p pgbench) command(l *load, c *client) (string, []string) {
	args := []string{"-n", "-h", c.host, "-p", c.port, "-U", "postgres", "-M", l.mode, "-T", strconv.Itoa(c.seconds),
		"-c", strconv.Itoa(c.clients), "-j", "1", "--max-tries", strconv.Itoa(triesMax), "--random-seed", strconv.Itoa(c.seed),
		"--log", "--log-prefix", p.logPrefix(c)}
	if l.sampling < 1 {
		args = append(args, "--sampling-rate", fmt.Sprint(l.sampling))
	}
	return p.program, append(append(args, l.args...), c.dbname)
}

func (p pgbench) logPrefix(c *client) string {
	return filepath.Join(c.dir, fmt.Sprintf("pgbench%d", c.number))
}

// parse takes the figures from the output and the latencies from the log, which it removes.
func (p pgbench) parse(c *client, output string) (outcome, error) {
	o, err := parsePgbench(output)
	if err != nil {
		return outcome{}, err
	}
	files, err := filepath.Glob(p.logPrefix(c) + ".*")
	if err != nil {
		return outcome{}, err
	}
	for _, f := range files {
		if o.latencies, err = readPgbenchLog(f, o.latencies); err != nil {
			return outcome{}, err
		}
		if err := os.Remove(f); err != nil {
			return outcome{}, err
		}
	}
	return o, nil
}

var pgbenchFigures = regexp.MustCompile(`(?m)^(number of transactions actually processed|number of failed transactions|total number of retries|latency average|tps)(?: =|:) ([0-9.]+)`)

// parsePgbench reads the summary pgbench prints at its end.
func parsePgbench(output string) (o outcome, err error) {
	found := map[string]float64{}
	for _, m := range pgbenchFigures.FindAllStringSubmatch(output, -1) {
		if found[m[1]], err = strconv.ParseFloat(m[2], 64); err != nil {
			return o, fmt.Errorf("%s: %w", m[1], err)
		}
	}
	for _, needed := range []string{"number of transactions actually processed", "tps"} {
		if _, ok := found[needed]; !ok {
			return o, errors.New("no " + needed + " in the output")
		}
	}
	return outcome{
		transactions: int64(found["number of transactions actually processed"]), tps: found["tps"], meanMs: found["latency average"],
		aborts: int64(found["total number of retries"]), failed: int64(found["number of failed transactions"]),
	}, nil
}

// readPgbenchLog appends the latencies of a transaction log.
func readPgbenchLog(path string, to []bucket) ([]bucket, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for s := bufio.NewScanner(f); ; {
		if !s.Scan() {
			return to, s.Err()
		}
		ms, ok, err := parsePgbenchLine(s.Text())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if ok {
			to = append(to, bucket{ms, 1})
		}
	}
}

// parsePgbenchLine reads "client transaction time script seconds microseconds …"; the time,
// in µs, is a word for a transaction that failed.
func parsePgbenchLine(line string) (ms float64, ok bool, err error) {
	fields := strings.Fields(line)
	if len(fields) < 6 {
		return 0, false, fmt.Errorf("%q is no line of a transaction log", line)
	}
	us, err := strconv.ParseFloat(fields[2], 64)
	if err != nil {
		return 0, false, nil
	}
	return us / 1000, true, nil
}
