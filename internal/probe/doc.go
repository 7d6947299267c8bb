// Package probe is the admin port: it answers the probes of monitoring systems and load balancers over HTTP.
//
//	/metrics  all that package metrics has, for Prometheus
//	/live     200 while the process runs
//	/ready    200 if clients should be sent here, 503 with the reason if not. ?for=reads or writes (the default),
//	          ?lag= so many transactions, or a time like 5s, that reads may be old, ?database= another
//	/status   what tutti status shows, as JSON
//
// Neighbours: node opens the port and tells the facts; metrics has the numbers. Nothing here changes anything.
//
// Invariants:
//
//	PR1  Ready is decided from Facts alone (ready.go), and Facts from what the node has in memory: no answer waits for
//	     another member, for the log or for PostgreSQL.
//	PR2  No client of the port can slow the node: connections, requests in a second, the size of what is read and the
//	     time for each are bounded (bounds.go).
//	PR3  The port has neither a login nor encryption. What it tells are numbers, names of databases, tables and
//	     members; never rows, statements, or secrets.
//
// What it does not do: take anything but GET and HEAD; log requests.
package probe
