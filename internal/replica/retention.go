package replica

import "math"

// Log is what retention asks of the log.
type Log interface {
	// BytesAfter is how much of the log was written behind an entry.
	BytesAfter(index uint64) int64
	// Surplus is the last entry that can go if so many bytes are kept behind it.
	Surplus(keepBytes int64) uint64
}

const (
	// A checkpoint follows another after an eighth of what is kept of the log, or this much.
	checkpointBytesMax = 128 << 20
	checkpointShare    = 8
	// LoanFactor is how many times as much of the log is kept at most while somebody copies a database.
	LoanFactor = 8
)

// Retention decides when a checkpoint is taken and stored, and how much of the log is kept.
//
//	idle --Wants, Took--> under way --Storable, Stored--> idle: the log may go up to it
//	                                \--Dropped--> idle: the next one comes when as much was written again
type Retention struct {
	tried uint64 // the entry of the last checkpoint that was taken, stored or not
	saved uint64 // that of the checkpoint which the database has, durably
	under bool   // one was taken, and is to be stored
	upTo  uint64 // the ordinal of that one
}

// NewRetention begins with the entry of the checkpoint that the database has; zero: it has none.
func NewRetention(saved uint64) Retention { return Retention{tried: saved, saved: saved} }

// Wants reports whether a checkpoint should be taken; keep is how many bytes of the log are kept, negative: all.
func (r *Retention) Wants(log Log, keep int64) bool {
	every := int64(checkpointBytesMax)
	if keep >= 0 {
		every = min(every, keep/checkpointShare)
	}
	return !r.under && r.After(log) >= every
}

// After is how many bytes of the log follow the last checkpoint that was taken.
func (r *Retention) After(log Log) int64 { return log.BytesAfter(max(r.tried, r.saved)) }

// TooFar reports whether so much of the log follows a checkpoint which is not applied here yet that a copy of another
// member's database is the shorter way (RE13).
func (r *Retention) TooFar(log Log, keep int64) bool {
	return keep >= 0 && r.under && r.After(log)/LoanFactor > keep
}

// Took notes that a checkpoint was taken, of an entry of the log and an ordinal.
func (r *Retention) Took(index, ordinal uint64) { r.tried, r.upTo, r.under = index, ordinal, true }

// Under reports whether a checkpoint was taken and is to be stored.
func (r *Retention) Under() bool { return r.under }

// Storable reports whether all that the checkpoint stands for is applied (RE5).
func (r *Retention) Storable(applied uint64) bool {
	return applied >= r.upTo || planted == "checkpoint-before-applied"
}

// Stored notes that the checkpoint is in the database, durably; Dropped that it is not stored.
func (r *Retention) Stored()  { r.saved, r.under = r.tried, false }
func (r *Retention) Dropped() { r.under = false }

// Compact is the entry up to which the log can go (RE6); zero: all of it is kept.
func (r *Retention) Compact(log Log, keep int64) uint64 {
	switch {
	case keep < 0:
		return 0
	case planted == "compact-before-checkpoint" && r.under:
		return min(r.tried, log.Surplus(keep))
	case planted == "compact-beyond-checkpoint":
		return log.Surplus(keep)
	case planted == "retention-ignored":
		return r.saved
	}
	return min(r.saved, log.Surplus(keep))
}

// CompactBeside is Compact while all that is behind entry lent is kept for who copies a database, unless that comes to
// too much (RE11).
func (r *Retention) CompactBeside(log Log, keep int64, lent uint64) uint64 {
	to := r.Compact(log, keep)
	if to <= lent {
		return to
	}
	return max(lent, min(to, log.Surplus(LoanFactor*min(keep, math.MaxInt64/LoanFactor))))
}
