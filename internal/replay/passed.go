package replay

import "sync"

// passed knows where in the server's WAL the applier's transactions ended: at a position behind
// all that they wrote, so that they had all their locks, and before their COMMIT. Who held
// locks at a later position had them after such a transaction, or together with it, in which
// case it wants other rows (E8).
type passed struct {
	mu     sync.Mutex
	change sync.Cond
	list   []pass // by position
	open   pass   // its COMMIT is under way; position 0 if there is none
}

type pass struct{ ordinal, lsn uint64 }

// passesMax bounds what is remembered.
const passesMax = 1 << 10

// Ending notes that a transaction of the applier's has done its work. One with lsn 0 says nothing
// about its progress.
func (p *passed) Ending(ordinal, lsn uint64) {
	p.mu.Lock()
	p.open = pass{ordinal, lsn}
	p.mu.Unlock()
}

// Ended notes how its COMMIT went.
func (p *passed) Ended(ok bool) {
	p.mu.Lock()
	if ok && p.open.lsn > 0 {
		if len(p.list) == passesMax {
			p.list = append(p.list[:0], p.list[passesMax/2:]...)
		}
		p.list = append(p.list, p.open)
	}
	p.open = pass{}
	if p.change.L != nil {
		p.change.Broadcast()
	}
	p.mu.Unlock()
}

// Before is the last ordinal that ended before a position, at least; it waits for a COMMIT on which
// that depends. 0 if it is not known.
func (p *passed) Before(lsn uint64) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.change.L == nil {
		p.change.L = &p.mu
	}
	for p.open.lsn > 0 && p.open.lsn <= lsn {
		p.change.Wait()
	}
	for i := len(p.list) - 1; i >= 0; i-- {
		if p.list[i].lsn <= lsn {
			return p.list[i].ordinal
		}
	}
	return 0
}
