package metrics

import (
	"time"

	"github.com/tuttidb/tutti/internal/flow"
)

// Database are the metrics of one database at one member. They begin from zero when the member begins again.
type Database struct {
	Member       Member
	Log          Log
	Transactions Transactions
	Waits        Waits
	Flow         Flow
	Writes       Writes
	Notify       Notify
	Audit        Audit
	Limits       Limits
}

// Member is where this member is in the order.
type Member struct {
	Ready     Gauge   `name:"member_ready" help:"Whether clients of the database are served, as 1 or 0."`
	Synced    Gauge   `name:"member_synced" help:"Whether the member has caught up, as 1 or 0."`
	Halted    Gauge   `name:"member_halted" help:"Whether an entry cannot be carried out here, as 1 or 0."`
	Slow      Gauge   `name:"member_slow" help:"Whether the leader has found the member far too slow, as 1 or 0."`
	Leads     Gauge   `name:"member_leads" help:"Whether the member leads the order, as 1 or 0."`
	Reached   Gauge   `name:"members_reached" help:"Members that are heard, this one included."`
	Voters    Gauge   `name:"members_voting" help:"Members that vote on the order."`
	Members   Gauge   `name:"members" help:"Members of the cluster."`
	Differs   Gauge   `name:"member_differing_tables" help:"Tables found to differ from other members'."`
	Ordinal   Gauge   `name:"order_ordinal" show:"ordinal" help:"Last place in the order that is known here."`
	Applied   Gauge   `name:"order_applied" show:"applied" help:"Place up to which all is applied here."`
	Lag       Gauge   `name:"replication_lag_transactions" help:"Transactions that are ordered and not applied here."`
	LagBytes  Gauge   `name:"replication_lag_bytes" help:"The same in bytes of the order."`
	LagTime   Span    `name:"replication_lag_seconds" help:"How old is what can be read here, at most."`
	Sessions  Gauge   `name:"sessions" help:"Sessions of the database."`
	Leaders   Counter `name:"leader_changes_total" help:"How often another leader was heard of."`
	FoundSlow Counter `name:"members_found_slow_total" help:"Members that this one has found far too slow as leader."`
	Handed    Counter `name:"lead_handed_over_total" show:"handed_over" help:"How often the lead was given away."`
}

// Log is the member's log, and what comes in and goes out for it.
type Log struct {
	Bytes     Gauge     `name:"log_bytes" help:"Size of the log on disk."`
	Syncs     Counter   `name:"log_syncs_total" show:"fsyncs" help:"Waits of the log for the disk."`
	SyncTime  Histogram `name:"log_write_duration_seconds" help:"Writes of the log, with their wait for the disk."`
	Entries   Counter   `name:"log_entries_total" show:"entries" help:"Entries written to the log."`
	Batches   Counter   `name:"log_batches_total" show:"batches" help:"Batches of own transactions proposed."`
	Compacted Counter   `name:"log_compactions_total" help:"How often the log's beginning was given up."`
	Sent      Counter   `name:"member_frames_sent_total" show:"frames_sent" help:"Messages to other members."`
	Received  Counter   `name:"member_frames_received_total" show:"frames_received" help:"Messages of other members."`
	Relayed   Counter   `name:"member_frames_relayed_total" help:"Messages sent once for several members of a site."`
}

// Transactions are those of this member's clients, and those of others that were applied here.
type Transactions struct {
	Groups    Counter           `name:"groups_total" show:"groups" help:"Groups carried out."`
	Local     Counter           `name:"transactions_committed_total" show:"local" help:"Own transactions committed."`
	Remote    Counter           `name:"transactions_applied_total" show:"remote" help:"Others' transactions applied."`
	Aborted   Counter           `name:"transactions_lost_total" show:"aborted" help:"Own transactions lost in order."`
	Blocked   Counter           `name:"transactions_blocked_total" help:"Own transactions lost over locks."`
	Phases    Histograms[Phase] `name:"commit_phase_duration_seconds" label:"phase" help:"Parts of COMMIT."`
	Conflicts Tables            `name:"conflicts_total" label:"schema table cause" help:"Lost transactions."`
}

// Phase is a part of the life of a transaction that commits.
type Phase uint8

// The phases follow one another.
const (
	PhaseRun     Phase = iota // from its beginning until COMMIT, the client's own time included
	PhaseCollect              // until its changes are read; what runs in one round trip with that is in it
	PhaseAdmit                // until it is handed to the order: held back, large, tried out
	PhaseOrder                // until the log has decided
	PhaseCommit               // until it is committed here
	PhaseSlowed               // until the client is answered, see flow control
	PhaseWhole                // all of them but PhaseRun
)

var phaseNames = []string{"run", "collect", "admit", "order", "commit", "slowed", "whole"}

// Names lists the phases by name.
func (Phase) Names() []string { return phaseNames }

// Waits are the waits of flow.Waits.
type Waits struct {
	Times   Histograms[flow.Wait] `name:"wait_duration_seconds" label:"wait" help:"Waits that have ended."`
	Waiting Gauges[flow.Wait]     `name:"waiting" label:"wait" help:"Who waits now."`
}

// Most is how long a wait takes at most, by the table of all waits.
func Most(w flow.Wait) time.Duration { return time.Duration(flow.Waits[w].MostMs) * time.Millisecond }

// Waiting is a wait that has begun.
type Waiting struct {
	of    *Waits
	wait  flow.Wait
	began time.Time
}

// Begin notes that somebody begins to wait. End must follow.
func (w *Waits) Begin(wait flow.Wait) Waiting {
	w.Waiting.of[wait].Add(1)
	return Waiting{w, wait, time.Now()}
}

// End notes that the wait is over.
func (w Waiting) End() {
	w.of.Waiting.of[w.wait].Add(-1)
	w.of.Times.Observe(w.wait, time.Since(w.began))
}

// Flow is how this member's clients, and its own work, are slowed.
type Flow struct {
	Delay       Span    `name:"flow_delay_seconds" help:"By how much transactions are slowed now."`
	Delays      Counter `name:"flow_delays_total" show:"throttled" help:"Transactions slowed because a member lags."`
	DelayTime   Timer   `name:"flow_delays_seconds_total" show:"throttled_us" help:"By how much, all together."`
	RestTime    Timer   `name:"flow_rests_seconds_total" show:"rested_us" help:"Rests while catching up."`
	Turns       Gauge   `name:"turns_max" show:"turns" help:"Transactions that may run at once; 0: all."`
	TurnsWaited Counter `name:"turns_waited_total" show:"turns_waited" help:"Transactions that waited for their turn."`
	HeldBack    Counter `name:"held_back_total" show:"held_back" help:"Transactions held back by definitions."`
}

// Writes are those that are carried out in another way than statement by statement.
type Writes struct {
	Deltas      Counter `name:"writes_added_total" show:"additions" help:"Updates that added without a lock."`
	Blind       Counter `name:"writes_blind_total" show:"blind" help:"Transactions carried out blindly."`
	BlindBlocks Counter `name:"writes_blind_blocks_total" show:"blind_blocks" help:"Those of several rows."`
}

// Notify are notifications between members.
type Notify struct {
	Taken    Counter `name:"notifications_sent_total" show:"notified" help:"Notifications for other members."`
	Told     Counter `name:"notifications_told_total" show:"notifications_told" help:"Notifications told here."`
	Lost     Counter `name:"notifications_lost_total" show:"notifications_lost" help:"Notifications of others lost."`
	Refused  Counter `name:"notifications_refused_total" help:"Notifications beyond notify_queue, not passed on."`
	Queued   Gauge   `name:"notifications_queued_bytes" help:"Notifications that wait to be ordered."`
	Channels Gauge   `name:"notification_channels" help:"Channels to which sessions here listen."`
}

// Audit is the comparison of the members' copies that goes on while this one leads.
type Audit struct {
	Parts  Counter `name:"audit_parts_total" show:"audit_parts" help:"Parts of tables compared."`
	Passes Counter `name:"audit_passes_total" show:"audit_passes" help:"Comparisons of all tables."`
	Time   Timer   `name:"audit_seconds_total" show:"audit_us" help:"Time that comparing has taken."`
}

// Limits count who was refused because of one. SHOW tutti.limits has the limits themselves.
type Limits struct {
	Sessions Counter `name:"refused_sessions_total" help:"Clients refused because of the setting sessions."`
	Writeset Counter `name:"refused_writesets_total" help:"Transactions refused because of writeset_bytes."`
	Pending  Counter `name:"refused_pending_total" help:"Transactions refused because of pending_items."`
	Timeout  Counter `name:"commit_timeouts_total" help:"Transactions that waited in vain (commit_timeout_ms)."`
	Keys     Counter `name:"forgotten_keys_total" help:"Transactions lost because they were too old for certify_keys."`
	Channels Counter `name:"refused_channels_total" help:"LISTEN refused because of the setting channels."`
}
