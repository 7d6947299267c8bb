package flow

// Age is how old is what can be read at a member: how long ago it was that all which it has applied was the end of the
// order, as the leader knew it then. Times are milliseconds of a clock that never goes back. Not safe for concurrent
// use.
type Age struct {
	begun int64
	ends  []orderEnd // not applied yet, when it was looked last, but the first; growing
	apart int64      // in time, at least, are two of them but the last
}

type orderEnd struct{ at, ordinal int64 }

// endsMax bounds how many are kept. Of more, every other one goes, and further ones are kept as far apart: an age is
// too great by a few hundredths.
const endsMax = 512

// Begin is called at the beginning, from which on the age counts.
func (a *Age) Begin(now int64) { a.begun = now }

// Note takes the end of the order as it is known now, from a leader that can be heard.
func (a *Age) Note(now int64, ordinal uint64) {
	n := len(a.ends)
	if n > 0 && a.ends[n-1].ordinal == int64(ordinal) || n > 1 && a.ends[n-1].at-a.ends[n-2].at < a.apart {
		a.ends[n-1] = orderEnd{now, int64(ordinal)}
		return
	}
	if a.ends = append(a.ends, orderEnd{now, int64(ordinal)}); n < endsMax {
		return
	}
	kept := a.ends[:0]
	for i := 0; i <= n; i += 2 {
		kept = append(kept, a.ends[i])
	}
	a.ends, a.apart = kept, 2*(now-kept[0].at)/endsMax
}

// Millis is the age now, when so much is applied.
func (a *Age) Millis(now int64, applied uint64) int64 {
	last := -1
	for i, e := range a.ends {
		if e.ordinal > int64(applied) {
			break
		}
		last = i
	}
	if last >= 0 {
		a.begun, a.ends = a.ends[last].at, a.ends[last:]
	}
	if len(a.ends) < 2 {
		a.apart = 0
	}
	return max(now-a.begun, 0)
}
