// Package metrics is what a node knows of itself: every counter, gauge and histogram, each declared in one line.
//
// To add one, add a field to the struct that it belongs to (process.go, database.go), with its name, its help and, if
// SHOW tutti.counters has it, its name there:
//
//	Syncs Counter `name:"log_syncs_total" show:"fsyncs" help:"Waits for the disk by the log."`
//
// and count with it: m.Log.Syncs.Add(1). SHOW and the HTTP port read all that is declared, see Registry.
//
// Neighbours: node counts and sets, and shows what is here by SHOW; probe shows it over HTTP. The waits and
// their bounds are declared in flow.
//
// Invariants:
//
//	M1  A name says its unit by Prometheus' rules: seconds and bytes, _total for what only grows. Times are kept in
//	    nanoseconds and told in seconds. New panics on a field that is not declared in full, or twice.
//	M2  Counting takes no lock and allocates nothing, but where a label's values are not known before (Tables).
//	M3  A label has a bounded number of values. What is beyond the bound counts under Others, so sums are right.
//	M4  What is read is of one moment for each number alone: two of them may be from different moments.
//
// What it does not do: keep history, HTTP, decide anything by what was counted.
package metrics
