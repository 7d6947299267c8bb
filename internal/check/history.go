package check

import "fmt"

// Level is the isolation level a transaction asked for.
type Level uint8

const (
	// ReadCommitted promises that only committed data is read, and no dirty writes.
	ReadCommitted Level = iota
	// Snapshot is PostgreSQL's REPEATABLE READ, one-copy: all reads from one prefix.
	Snapshot
	// Serializable promises an equivalent serial order.
	Serializable
)

// Outcome is what the client knows about its commit.
type Outcome uint8

const (
	// Unknown: the answer was lost; it may have committed.
	Unknown Outcome = iota
	// OK: acknowledged.
	OK
	// Fail: certainly not committed.
	Fail
)

// Anomaly is one broken promise. Transactions are indexes into the history.
type Anomaly struct {
	Kind         string // "G0", "G1a", "lost update" …
	Text         string
	Transactions []int
}

func (a Anomaly) String() string {
	return fmt.Sprintf("%s: %s (transactions %v)", a.Kind, a.Text, a.Transactions)
}

// report collects anomalies up to a limit, so that a broken run does not drown its reader.
type report struct{ anomalies []Anomaly }

const anomaliesMax = 100

func (r *report) add(kind string, txs []int, format string, args ...any) {
	if len(r.anomalies) < anomaliesMax {
		r.anomalies = append(r.anomalies, Anomaly{kind, fmt.Sprintf(format, args...), txs})
	}
}
