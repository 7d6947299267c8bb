package metrics

// Process are the metrics of a node, whatever database they concern.
type Process struct {
	Node    Node
	Clients Clients
}

// Node is what a node is doing.
type Node struct {
	Ready      Gauge   `name:"node_ready" help:"Whether the node takes clients, as 1 or 0."`
	Draining   Gauge   `name:"node_draining" help:"Whether the node was told to stop, as 1 or 0."`
	Restarts   Counter `name:"node_restarts_total" help:"How often the member began again after a failure."`
	Goroutines Gauge   `name:"node_goroutines" show:"goroutines" help:"Goroutines."`
}

// Clients are those who want to be served.
type Clients struct {
	Sessions     Gauge   `name:"client_sessions" help:"Sessions, and clients that are logging in."`
	SessionsMax  Gauge   `name:"client_sessions_max" help:"How many there may be at once, by the setting sessions."`
	Logins       Counter `name:"client_logins_total" show:"logins" help:"Clients that have logged in."`
	LoginsFailed Counter `name:"client_logins_failed_total" show:"logins_failed" help:"Clients whose login has failed."`
	Refused      Counter `name:"client_refused_total" show:"clients_refused" help:"Clients that were refused."`
	Unlogged     Counter `name:"client_unlogged_total" show:"clients_unlogged" help:"Refused clients not logged."`
	LargeOpen    Gauge   `name:"large_transactions" help:"Transactions of more than 16 MiB that are kept now."`
	LargeWaited  Counter `name:"large_transactions_waited_total" help:"How often one waited."`
}
