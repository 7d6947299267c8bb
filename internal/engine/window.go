package engine

// window is what of this member's own batches is under way: proposed, and not delivered yet.
type window struct {
	inflight []*proposal
	number   uint64 // of the last batch made
	idle     int    // ticks since something of ours was delivered
	again    int    // idle at which what is under way is proposed again; zero if that is still to be reckoned
	usual    int    // ticks that a delivery takes
}

// proposal is a batch under way; sent is false while nobody took it.
type proposal struct {
	number uint64
	data   []byte
	sent   bool
	part   bool // there is a part of a large payload in it
}

const (
	resubmitTicksMin = 4 // a machine that is busy delivers late, too
	resubmitTimes    = 4
)

// tick counts a tick without a delivery, and says that what is under way is to be proposed again, if it seems lost.
func (i *window) tick(resubmitTicks int) {
	if len(i.inflight) == 0 {
		i.idle, i.again = 0, 0
		return
	}
	i.idle++
	patience := resubmitTicks
	if i.parts() == 0 { // they may take a while
		patience = min(max(resubmitTicksMin, resubmitTimes*i.usual), patience)
	}
	if i.again == 0 {
		i.again = patience
	}
	if i.idle >= i.again {
		i.again = i.idle + min(i.idle, max(patience, resubmitTicks/2))
		i.repeat()
	}
}

// repeat has everything under way be proposed again.
func (i *window) repeat() {
	for _, p := range i.inflight {
		p.sent = false
	}
}

// progress notes that something of ours was delivered. Estimates of how long that takes rise at once and fall slowly,
// so that a way that has become long is not taken for loss again and again.
func (i *window) progress() {
	i.usual = max(i.idle, i.usual-(i.usual-i.idle+7)/8)
	i.idle, i.again = 0, 0
}

// arrived takes the oldest one off, and reports whether it has this number.
func (i *window) arrived(number uint64) bool {
	if len(i.inflight) == 0 || i.inflight[0].number != number {
		return false
	}
	i.inflight = i.inflight[1:]
	i.progress()
	return true
}

// parts is how many batches under way have a part of a large payload.
func (i *window) parts() (n int) {
	for _, p := range i.inflight {
		if p.part {
			n++
		}
	}
	return n
}

// open reports whether another batch may be under way.
func (i *window) open(most int) bool {
	n := len(i.inflight)
	return n < most && (n == 0 || i.inflight[n-1].sent)
}

// send offers every batch that nobody took, in order, until one is not taken.
func (i *window) send(propose func([]byte) bool) {
	for _, p := range i.inflight {
		if !p.sent && !propose(p.data) {
			return
		}
		p.sent = true
	}
}

// push puts a batch under way.
func (i *window) push(b *batch, part bool) {
	i.number++
	i.inflight = append(i.inflight, &proposal{number: i.number, data: b.append(nil), part: part})
}
