package sim

// judge checks the whole history once everything is quiet.
func (w *world) judge() {
	for _, m := range w.members {
		w.truth.checkPrefix(m)
	}
	w.judgeOutcomes()
	w.judgeTotals()
}

// judgeOutcomes checks that what was acknowledged is in the order and what failed is not.
func (w *world) judgeOutcomes() {
	for _, a := range w.history {
		_, ordered := w.truth.seqs[a.tag]
		if a.outcome == outcomeOK && len(a.changes) > 0 && !ordered {
			w.violation("the transaction with tag %d (%v) was acknowledged but is not in the order", a.tag, a.id)
		}
		if a.outcome == outcomeFail && ordered {
			w.violation("the transaction with tag %d (%v) failed but is in the order", a.tag, a.id)
		}
	}
}

// judgeTotals checks that every complete REPEATABLE READ sight of the bank adds up.
func (w *world) judgeTotals() {
	for _, a := range w.history {
		if !a.repeat || len(a.reads) < int(rowsOf[tAccount]) || a.reads[0].key.t != tAccount {
			continue
		}
		sum := int64(0)
		for _, r := range a.reads {
			sum += r.n
		}
		if sum != accountStart*int64(rowsOf[tAccount]) {
			w.violation("the transaction with tag %d saw a total of %d", a.tag, sum)
		}
	}
}
