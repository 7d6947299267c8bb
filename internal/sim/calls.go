package sim

const beginRepeat = "BEGIN ISOLATION LEVEL REPEATABLE READ"

// draw draws what a client does next.
func (cs *callers) draw(a *attempt) (calls []call) {
	w, r := cs.w, cs.w.rnd
	if r.chance(350) {
		return []call{cs.alone()}
	}
	a.repeat = r.chance(250)
	begin := "BEGIN"
	if a.repeat {
		begin = beginRepeat
	}
	calls = append(calls, call{kind: callBegin, sql: begin})
	last := call{kind: callCommit, sql: "COMMIT"}
	switch r.intn(11) {
	case 0:
		calls = append(calls, call{sql: "SELECT id, n, tag FROM accounts", verb: dataScan, key: rowKey{t: tAccount}})
	case 1, 2: // a transfer
		from, n := uint32(r.skewed(int(rowsOf[tAccount]), w.swarm.skew)), r.between(1, 20)
		to := (from + 1 + uint32(r.intn(int(rowsOf[tAccount])-1))) % rowsOf[tAccount]
		if r.chance(300) {
			calls = append(calls, newCall(dataRead, rowKey{tAccount, from}, 0))
		}
		calls = append(calls, newCall(dataAdd, rowKey{tAccount, from}, -n), newCall(dataAdd, rowKey{tAccount, to}, n))
	case 3, 4: // what can be deferred, and looks at it
		a.repeat, calls[0].sql = false, "BEGIN"
		for range 1 + r.intn(4) {
			calls = append(calls, newCall(deferrable[r.intn(len(deferrable))], cs.counter(), r.between(0, 9)))
		}
	case 5: // behind another write, what can be added when it commits
		a.repeat, calls[0].sql = false, "BEGIN"
		calls = append(calls, cs.statement(3), newCall(dataAdd, cs.counter(), r.between(-9, 9)))
		if r.chance(300) {
			calls = append(calls, newCall(dataAdd, cs.counter(), r.between(-9, 9)))
		}
		if r.chance(300) { // and is looked at
			calls = append(calls, newCall(dataRead, calls[2].key, 0))
		}
	case 6: // behind a savepoint, what is looked at
		calls = append(calls, cs.statement(4), call{kind: callSave, sql: "SAVEPOINT s"}, cs.statement(r.intn(4)))
		calls = append(calls, newCall(dataRead, calls[3].key, 0))
	default:
		for range 1 + r.intn(4) {
			calls = append(calls, cs.statement(r.intn(10)))
		}
		if r.chance(200) {
			calls = cs.savepoint(calls)
		}
		if r.chance(150) {
			last = call{kind: callRollback, sql: "ROLLBACK"}
		}
		if r.chance(30) {
			calls = append(calls, cs.fails())
		}
	}
	return append(calls, last)
}

// again is what a client has done before, with the same rows, as most clients do.
func (cs *callers) again(a *attempt, before []call) (calls []call) {
	a.repeat = before[0].sql == beginRepeat
	for _, x := range before {
		if x.verb == dataAppend {
			cs.w.values++
			x = newCall(dataAppend, x.key, int64(cs.w.values))
		}
		calls = append(calls, x)
	}
	if at := len(calls) - 1; cs.w.rnd.chance(200) { // but something fails where it has committed
		calls = append(calls[:at:at], cs.fails(), calls[at])
	}
	return calls
}

// alone draws a transaction without a block: a statement, or several writes in one batch.
func (cs *callers) alone() call {
	r := cs.w.rnd
	x := cs.statement(r.intn(6))
	for x.verb >= dataAdd && r.chance(150) {
		if y := cs.statement(r.intn(4)); y.verb != x.verb {
			x.more = append(x.more, y)
		}
	}
	return x
}

// deferrable are what a block of reads and deferred writes does.
var deferrable = [...]dataVerb{dataSet, dataSet, dataSet, dataRead, dataRead, dataRead, dataAdd, dataDelete}

// fails is a statement that fails: the backend refuses it, or the session.
func (cs *callers) fails() call {
	if cs.w.rnd.chance(500) {
		return call{kind: callFails, sql: failing}
	}
	return call{kind: callFails, sql: refused}
}

// refused is a statement that a session refuses in a block.
const refused = "COMMIT PREPARED 'x'"

// savepoint puts one among the statements of a block, and perhaps goes back to it.
func (cs *callers) savepoint(calls []call) []call {
	at := 1 + cs.w.rnd.intn(len(calls))
	rest := calls[at:]
	calls = append(append(calls[:at:at], call{kind: callSave, sql: "SAVEPOINT s"}), rest...)
	if cs.w.rnd.chance(500) {
		calls = append(calls, call{kind: callBack, sql: "ROLLBACK TO SAVEPOINT s"})
		if cs.w.rnd.chance(500) {
			calls = append(calls, cs.statement(cs.w.rnd.intn(10)))
		}
	}
	return calls
}

// statement draws a statement of a kind: rows of counters are set, added to, made, and deleted; lists grow.
func (cs *callers) statement(kind int) call {
	w, r := cs.w, cs.w.rnd
	counter := cs.counter()
	list := rowKey{tList, uint32(r.skewed(int(rowsOf[tList]), w.swarm.skew))}
	switch kind {
	case 0, 1:
		return newCall(dataSet, counter, r.between(0, 9))
	case 2, 6:
		x := newCall(dataAdd, counter, r.between(-9, 9))
		if kind == 6 {
			x.sql += returningN
		}
		return x
	case 3:
		w.values++
		return newCall(dataAppend, list, int64(w.values))
	case 4:
		if r.chance(300) {
			return newCall(dataDelete, counter, 0)
		}
		return newCall(dataInsert, counter, r.between(0, 9))
	case 5:
		return newCall(dataRead, list, 0)
	}
	return newCall(dataRead, counter, 0)
}

// counter draws one.
func (cs *callers) counter() rowKey {
	return rowKey{tCounter, uint32(cs.w.rnd.skewed(int(rowsOf[tCounter]), cs.w.swarm.skew))}
}

func newCall(verb dataVerb, k rowKey, n int64) call {
	t, id := k.t.sql(), int64(k.id)
	x := call{verb: verb, key: k, n: n, args: []int64{n, id}}
	switch verb {
	case dataRead:
		column := "n"
		if k.t == tList {
			column = "list"
		}
		x.sql, x.args = "SELECT "+column+", tag FROM "+t+" WHERE id = $1", []int64{id}
	case dataAdd:
		x.sql = "UPDATE " + t + " SET n = n + $1 WHERE id = $2"
	case dataSet:
		x.sql = "UPDATE " + t + " SET n = $1 WHERE id = $2"
	case dataAppend:
		x.sql = "UPDATE " + t + " SET list = list || $1 WHERE id = $2"
	case dataInsert:
		x.sql, x.args = "INSERT INTO "+t+" (id, n) VALUES ($1, $2)", []int64{id, n}
	case dataDelete:
		x.sql, x.args = "DELETE FROM "+t+" WHERE id = $1", []int64{id}
	}
	return x
}
