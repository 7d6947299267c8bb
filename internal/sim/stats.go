package sim

import "reflect"

// Stats counts what happened, so that a run that tests nothing is noticed.
type Stats struct {
	OK, Fail, Unknown  int // outcomes
	Committed, Aborted int // ordinals, verdicts at origins
	Net                netStats
	TimedOut           int // sessions that gave up waiting for the log
	// READ COMMITTED updates lost to own predecessors alone, while no backend had died
	OwnAborts                                             int
	Blocked, Victims, Withdrawn, Foretold, Kept           int
	Gathered, Early, Deadlocks, Refused                   int
	Ended, Fills, Delays                                  int // backends that held up a full queue; fills; clients slowed
	Crashes, Outages, Clones, Kills, LostCommits          int
	StepCrashes, FailedSyncs, FullDisks                   int
	Checkpoints, Compactions, LostMembers, LogRestarts    int
	Waits                                                 waitStats
	Locked, LocksLost                                     int // advisory locks taken, and lost
	HandOvers, Missed                                     int // of the lead; ends that others were told of
	Added                                                 int // additions that were made at COMMIT
	Blind, BlindMissed                                    int // blind transactions; of these, that found no row
	Held, Shunned                                         int // rows that were shown; blind ones that were not tried
	Reached                                               int // new connections
	Members                                               memberStats
	Halts                                                 int // members that could not go on
	Partitions, Flaps, Pauses, DatabasePauses, ClockJumps int
	Served                                                servedStats
}

// memberStats counts disks that were lost, and members that came back after that; changes of who votes, and those that
// could not be ended; copies of databases that broke off because their donor ended; runs with a witness, ticks for
// which it led, and how often its log began anew; members found far too slow, and well again; slow ones that stopped
// voting.
type memberStats struct {
	LostDisks, BegunAgain, Configured, Interrupted, BrokenOff, Removed, Ranked, Alone int
	Witnesses, Witnessed, Began                                                       int
	// Of spares: runs with some; those that came to serve, and to vote; members that were replaced, that the order
	// dropped, and that have ended since.
	Spared, Joined, Seated, Replaced, Dropped, Left int
	Slow, Recovered, SlowDemoted                    int
}

// netStats counts frames between members.
type netStats struct{ Frames, Lost, Relayed int }

// waitStats counts how sessions wait for others, and listen to them.
type waitStats struct {
	Announced      int // changes of channels
	Notified       int // notifications passed on
	Granted, Locks int // schema locks that a member has granted; that a session was given by all
	Lost, Outdated int // transactions that lost to one; definitions that were looked up again
	Turns, Circles int // turns taken; that sessions went on without, as they waited in a circle
	Outrun         int // transactions that were ordered once more, behind a definition that came first
}

// servedStats counts what production sessions did.
type servedStats struct {
	Sessions, OK, Fail, Submitted                         int
	Plain, Returning, Blind, Deferred, Delta, ReadThrough int // statements, by how they were carried out
	Cancels, Gone, Kills                                  int // that clients asked for; clients that went; backends
}

func (s *Stats) count(a *attempt) {
	switch a.outcome {
	case outcomeOK:
		s.OK++
	case outcomeFail:
		s.Fail++
	default:
		s.Unknown++
	}
}

// add sums counts up.
func (s *Stats) add(o Stats) {
	more := o.fields()
	for i, f := range s.fields() {
		f.value.SetInt(f.value.Int() + more[i].value.Int())
	}
}

// field is one count.
type field struct {
	name  string
	value reflect.Value
}

// fields are all counts, with the names of the structs that they are in.
func (s *Stats) fields() []field { return fieldsOf("", reflect.ValueOf(s).Elem()) }

func fieldsOf(prefix string, v reflect.Value) (out []field) {
	for i := range v.NumField() {
		name, f := prefix+v.Type().Field(i).Name, v.Field(i)
		if f.Kind() == reflect.Struct {
			out = append(out, fieldsOf(name+".", f)...)
		} else {
			out = append(out, field{name, f})
		}
	}
	return out
}
