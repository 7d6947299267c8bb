package sim

import "reflect"

// Stats counts what happened, so that a run that tests nothing is noticed.
type Stats struct {
	OK, Fail, Unknown                                                                int // outcomes
	Committed, Aborted                                                               int // ordinals, verdicts at origins
	Frames, Lost                                                                     int
	TimedOut                                                                         int // sessions that gave up waiting for the log
	OwnAborts                                                                        int // READ COMMITTED updates lost to own predecessors alone, while no backend had died
	Blocked, Victims, Withdrawn, Foretold, Kept, Gathered, Early, Deadlocks, Refused int
	Ended, Fills, Delays                                                             int // backends that held up a full queue; how often it was full; clients that were slowed
	Crashes, Outages, Clones, Kills, LostCommits                                     int
	StepCrashes, FailedSyncs, FullDisks                                              int
	Checkpoints, Compactions, LostMembers, LogRestarts                               int
	Notified                                                                         int // notifications passed on
	Locked, LocksLost                                                                int // advisory locks taken, and lost
	HandOvers, Missed                                                                int // of the lead; ends of members that others were told of
	Added                                                                            int // additions that were made at COMMIT
	Blind, BlindMissed, Held, Shunned                                                int // blind transactions; of these, that found no row; rows that were shown; and that were not tried
	Reached                                                                          int // new connections
	LostDisks, StayedOut                                                             int
	Halts                                                                            int // members that could not go on
	Partitions, Flaps, Pauses, DatabasePauses, ClockJumps                            int
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
	sum, more := reflect.ValueOf(s).Elem(), reflect.ValueOf(o)
	for i := range sum.NumField() {
		sum.Field(i).SetInt(sum.Field(i).Int() + more.Field(i).Int())
	}
}
