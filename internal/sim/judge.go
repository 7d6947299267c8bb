package sim

import (
	"github.com/tuttidb/tutti/internal/check"
	"github.com/tuttidb/tutti/internal/writeset"
)

// judge checks the whole history once everything is quiet.
func (w *world) judge() {
	for _, m := range w.present() {
		w.truth.checkPrefix(m)
	}
	w.judgeRefusals()
	judgeChanged(w)
	w.judgeAdvisory()
	w.callers.judgeTold()
	if !w.o.BlackBox {
		w.judgeOutcomes()
		w.judgeBlind()
		w.judgeTotals()
		w.judgeLocks()
		w.report("white box", check.WhiteBox(w.whiteBox(), check.WhiteBoxOptions{Initial: initialVersions()}))
	}
	h, o := w.lists()
	w.report("list-append", check.ListAppend(h, o))
}

func (w *world) report(judge string, as []check.Anomaly) {
	if len(as) > 0 {
		w.violation("%s: %v (and %d more)", judge, as[0], len(as)-1)
	}
}

// judgeOutcomes checks that what was acknowledged is in the order and what failed is not.
func (w *world) judgeOutcomes() {
	for _, a := range w.history {
		_, ordered := w.truth.seqs[a.tag]
		if a.outcome == outcomeOK && (len(a.changes) > 0 || a.define != nil) && !ordered {
			w.violation("the transaction with tag %d (%v) was acknowledged but is not in the order", a.tag, a.id)
		}
		if a.outcome == outcomeFail && ordered {
			w.violation("the transaction with tag %d (%v) failed but is in the order", a.tag, a.id)
		}
	}
}

// judgeLocks checks that nobody took a lock or changed a row unseen that a REPEATABLE READ transaction had
// locked; READ COMMITTED may have seen it.
func (w *world) judgeLocks() {
	for _, a := range w.history {
		seq, ordered := w.truth.seqs[a.tag]
		if !ordered || !a.repeat || len(a.locked) == 0 {
			continue
		}
		mine := encode(a.locked, a.tag)
		for o := a.base + 1; o < seq; o++ {
			b := w.truth.committed(o)
			if b != nil && (conflict(mine, encode(b.changes, b.tag)) || conflict(mine, encode(b.locked, b.tag))) {
				w.violation("ordinals %d and %d: the transaction with tag %d has locked what that with tag %d, which "+
					"it had not seen, locked or changed", o, seq, a.tag, b.tag)
			}
		}
	}
}

// judgeTotals checks that every complete REPEATABLE READ sight of the bank adds up.
func (w *world) judgeTotals() {
	for _, a := range w.history {
		sum, n := int64(0), uint32(0)
		for _, r := range a.reads {
			if r.key.t == tAccount {
				sum += r.n
				n++
			}
		}
		if !a.repeat || n < rowsOf[tAccount] {
			continue
		}
		if sum != accountStart*int64(rowsOf[tAccount]) {
			w.violation("the transaction with tag %d saw a total of %d", a.tag, sum)
		}
	}
}

func initialVersions() map[uint64]uint64 {
	vs := map[uint64]uint64{}
	for _, c := range initial() {
		vs[c.key.identity()] = initialTag
	}
	return vs
}

func (a *attempt) level() check.Level {
	if a.strict {
		return check.Serializable
	}
	if a.repeat {
		return check.Snapshot
	}
	return check.ReadCommitted
}

func (a *attempt) judged() check.Outcome {
	switch a.outcome {
	case outcomeOK:
		return check.OK
	case outcomeFail:
		return check.Fail
	}
	return check.Unknown
}

// whiteBox gives the history with the ordinals the members claim.
func (w *world) whiteBox() []check.Transaction {
	h := make([]check.Transaction, 0, len(w.history))
	for _, a := range w.history {
		t := check.Transaction{Session: a.process, Level: a.level(), Outcome: a.judged(), Snap: a.base,
			Seq: w.truth.seqs[a.tag]}
		for _, r := range a.reads {
			if r.tag != a.tag && r.key.t != tCounter { // versions of these have no author
				t.Accesses = append(t.Accesses, check.Access{Key: r.key.identity(), Version: r.tag})
			}
		}
		for _, c := range a.changes {
			if c.op.Locks() || c.key.t == tCounter {
				continue // see tx.apply
			}
			v := a.tag
			switch c.op {
			case writeset.OpDelete:
				v = 0
			case writeset.OpSet: // and OpDrop is for counters alone
				if v = w.truth.blind[versionOf{a.tag, c.key}]; v == 0 {
					continue
				}
			}
			t.Accesses = append(t.Accesses, check.Access{Key: c.key.identity(), Version: v, Write: true,
				Makes: c.op == writeset.OpInsert})
		}
		h = append(h, t)
	}
	return h
}

// lists gives the list-append history as clients saw it, and every member's last state.
func (w *world) lists() ([]check.ListTransaction, check.ListOptions) {
	var h []check.ListTransaction
	for _, a := range w.history {
		t := check.ListTransaction{Session: a.process, Level: a.level(), Outcome: a.judged(), Start: a.start,
			End: a.end}
		for _, op := range a.ops {
			t.Ops = append(t.Ops, check.ListOp{Key: uint64(op.key), Append: op.value, Read: op.list})
		}
		if len(t.Ops) > 0 {
			h = append(h, t)
		}
	}
	var o check.ListOptions
	for _, m := range w.present() {
		var ops []check.ListOp
		for id := range rowsOf[tList] {
			ops = append(ops, check.ListOp{Key: uint64(id), Read: m.db.at(rowKey{tList, id}, m.db.visible).v.list})
		}
		o.Final = append(o.Final, ops)
	}
	return h, o
}
