package bench

import (
	"encoding/json"
	"os"
	"time"
)

// Report is everything a comparison found; it is what --json writes.
type Report struct {
	Started  time.Time         `json:"started"`
	Seconds  float64           `json:"seconds"` // of the whole comparison
	Machine  Machine           `json:"machine"`
	Versions map[string]string `json:"versions"`
	Options  Options           `json:"options"`
	// Settings of every server, as SHOW gives them.
	Settings map[string]map[string]string `json:"settings"`
	// Missing says in words what was not measured, and why.
	Missing []string `json:"missing,omitempty"`
	Runs    []Run    `json:"runs"`
	Medians []Run    `json:"medians"` // over the rounds
	Ratios  []Ratio  `json:"ratios"`
	Remote  *Remote  `json:"remote,omitempty"`
}

// Machine is where it ran.
type Machine struct {
	Cores     int     `json:"cores"`
	System    string  `json:"system"`
	Processor string  `json:"processor,omitempty"`
	Memory    string  `json:"memory,omitempty"`
	Load      float64 `json:"load"` // average of the minute before
	// FsyncUs is how long the disk takes to make 8 KiB durable, in µs; the median of many.
	FsyncUs float64 `json:"fsync_us"`
}

// Run is one load on one server: of one round, or the medians of its figures.
type Run struct {
	Load         string  `json:"load"`
	Clients      int     `json:"clients"`
	Server       string  `json:"server"`
	Round        int     `json:"round,omitempty"` // from 1
	Error        string  `json:"error,omitempty"` // then there are no figures
	Transactions int64   `json:"transactions"`
	TPS          float64 `json:"tps"`
	MeanMs       float64 `json:"mean_ms"`
	P95Ms        float64 `json:"p95_ms"`
	// Aborts counts tries that ended with an error which asks to try again; AbortShare is
	// their part of all tries.
	Aborts     int64   `json:"aborts"`
	AbortShare float64 `json:"abort_share"`
	// LostShare is the part of ordered transactions that lost at certification, those
	// included that the session repeated by itself.
	LostShare float64 `json:"lost_share"`
	Failed    int64   `json:"failed"` // transactions given up
	CPU       *CPU    `json:"cpu_us,omitempty"`
	// Fsyncs per transaction and member: of the log that makes commits durable, and of
	// PostgreSQL's own.
	Fsyncs float64 `json:"fsyncs"`
	// CatchUpMs is how long the nodes went on applying after the clients had ended.
	CatchUpMs float64 `json:"catch_up_ms"`
	// OthersShare is the part of all cores that went to processes which are not of this run.
	OthersShare float64  `json:"others_share"`
	Members     []Member `json:"members,omitempty"` // not in medians
}

// CPU is what one transaction costs in µs, summed over all servers and processes.
type CPU struct {
	Database   float64 `json:"database"`
	Applying   float64 `json:"applying"`   // of that: the appliers' backends
	Middleware float64 `json:"middleware"` // Tutti's nodes, or PgBouncer
	Client     float64 `json:"client"`
}

// Member is one database server of a run, with the node before it; per transaction of the
// whole run, times in µs.
type Member struct {
	Name     string  `json:"name"`
	Sessions float64 `json:"sessions_us,omitempty"` // backends of clients
	Applier  float64 `json:"applier_us,omitempty"`  // the backend that writes other members' rows
	// of PostgreSQL: WAL writer, checkpointer, autovacuum …
	Helpers    float64           `json:"helpers_us,omitempty"`
	Middleware float64           `json:"middleware_us,omitempty"` // the node's process
	LogSyncs   float64           `json:"log_syncs"`               // of Tutti's log
	WALSyncs   float64           `json:"wal_syncs"`               // of PostgreSQL's log
	Counters   map[string]uint64 `json:"counters,omitempty"`
}

// Ratio compares the throughput of two servers, round by round.
type Ratio struct {
	Load    string    `json:"load"`
	Clients int       `json:"clients"`
	Of      string    `json:"of"`
	To      string    `json:"to"`
	Rounds  []float64 `json:"rounds"`
	Spread
}

// Spread is a median with the extremes.
type Spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// Remote says what it costs to apply a transaction of another member: load wo. Times are CPU
// in µs per transaction.
type Remote struct {
	Clients int     `json:"clients"`
	Apply   *Spread `json:"apply_us"`           // the applier's backend, mean of the members without clients
	Node    *Spread `json:"node_us"`            // their node processes
	Plain   *Spread `json:"plain_us,omitempty"` // client backends of the plain server for the same load
	Origin  *Spread `json:"origin_us"`          // client backends at the member with the clients
	// ToPlain is Apply ÷ Plain (wo), ToOrigin Apply ÷ Origin.
	ToPlain  *Spread `json:"to_plain,omitempty"`
	ToOrigin *Spread `json:"to_origin"`
}

// write puts the report into a file as JSON.
func (r *Report) write(path string) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(b, '\n'), 0o644)
}
