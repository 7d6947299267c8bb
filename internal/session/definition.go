package session

import (
	"encoding/hex"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/session/proto"
	"github.com/tuttidb/tutti/internal/session/txn"
	"github.com/tuttidb/tutti/internal/wire"
	"github.com/tuttidb/tutti/internal/writeset"
)

// RoleSetting names the origin's current role among a definition's settings.
const RoleSetting = "role"

// definitions runs DDL: inside the client's transaction if there is one, else at every member at its place in the
// order, or at this member first.
type definitions struct {
	backend *backend
	host    definitionsHost
	extents Extents
	marks   Marks

	txn        *txn.Machine
	tx         *transaction
	block      *block
	schema     *schema
	tableLocks *tableLocks
	carrying   *carrying
	relaying   *relaying
	unnamed    *unnamed
	executing  *executing
	results    *proto.Results
}

// definitionsHost is what it needs of the node.
type definitionsHost struct {
	Control
	Order
	Intents
	Definitions
}

// run runs one definition.
func (f *definitions) run(st semantics.Statement) (failedToo bool, err error) {
	foreign := f.executing.texts.foreign(st.Text)
	if failed, err := f.admit(&st, foreign); failed || err != nil {
		return true, err
	}
	if st.Shared {
		return f.shared(&st)
	}
	if err := f.spell(&st); err != nil {
		return true, err
	}
	around, err := f.look(st)
	if err != nil {
		return true, err
	}
	around.private = around.private || foreign
	where := around.site(&st, f.txn.Active())
	switch where {
	case amongTemporary:
		return f.temporary(&st)
	case inTransaction:
		return f.here(st)
	}
	if st.Detach != nil && !around.private {
		if done, failed, err := f.detach(&st); done || err != nil {
			return failed, err
		}
	}
	if where == hereFirst {
		return f.first(st, !around.private)
	}
	return f.define(&st)
}

// admit refuses a definition that cannot be run where it stands, or as it was sent; the client has been told so. It may
// change the others.
func (f *definitions) admit(st *semantics.Statement, foreign bool) (failed bool, err error) {
	switch {
	case st.Alone != "" && !f.txn.Idle():
		return true, f.block.fail(wire.Errorf(wire.CodeActiveTransaction, "%s cannot run inside a transaction block",
			st.Alone))
	case st.Shared && foreign:
		return true, f.block.fail(errForeign("roles and databases cannot be changed"))
	}
	st.Here = st.Here || foreign && st.Quiet // it is noted by us
	return f.veil(st)
}

// temporary runs a definition of nothing but temporary relations: here, as a statement that may write.
func (f *definitions) temporary(st *semantics.Statement) (failedToo bool, err error) {
	var rep reply
	r := request{sql: []string{st.Text}, does: doing{write: true}}
	mark := ""
	if st.Rights { // the event trigger is not told on what
		mark = f.marks.BulkMark()
		r.answer.shifts = []int32{-int32(len(mark))}
	}
	r.frames = wire.AppendQuery(nil, mark+st.Text)
	return f.executing.execute(r, &rep)
}

// shared runs a definition of what all databases share. Its place is in the main database's order.
func (f *definitions) shared(st *semantics.Statement) (bool, error) {
	if f.txn.Idle() {
		return f.define(st)
	}
	f.schema.shared = true // in another database it is refused at COMMIT
	return f.here(*st)
}

// veil puts a verifier in the place of a clear-text password, if there is one. It reports whether the definition has
// failed by that, and then the client has been told why.
func (f *definitions) veil(st *semantics.Statement) (failed bool, err error) {
	if st.Password == nil || f.txn.Failed() {
		return false, nil
	}
	verifier, failure, err := f.verifier(st.Password)
	if err == nil && failure != nil {
		err = f.block.fail(failure)
	}
	if err != nil || failure != nil {
		return true, err
	}
	st.Text = st.Veiled(verifier)
	return false, nil
}

// verifier is what PostgreSQL would make of a password.
func (f *definitions) verifier(p *semantics.Password) (verifier string, failure *wire.SQLError, err error) {
	if f.txn.Active() {
		if err := f.tx.ensureOpen(true); err != nil {
			return "", nil, err
		}
	}
	r, rows, err := f.backend.ask("SHOW password_encryption")
	if err != nil || r.failed != nil {
		return "", failureOf(r), err
	}
	md5 := string(rows[0][0]) == "md5"
	if md5 && p.Role == "" {
		return "", wire.Errorf(wire.CodeFeatureNotSupported,
			"a password for a role that is not named cannot be replicated as MD5").WithHint(
			"Name the role, or use SCRAM-SHA-256."), nil
	}
	return f.host.Verifier(p.Clear, p.Role, md5), nil, nil
}

// first runs a definition at this member first, in a transaction of its own. If others hold locks on what
// it is about, it waits for them there as in PostgreSQL; and it finds the session's temporary objects. If
// others' rows do not let it, it takes its place in the order at once when it yields, and they lose.
func (f *definitions) first(st semantics.Statement, yields bool) (bool, error) {
	var rep reply
	r := request{frames: wire.AppendQuery(nil, st.Text), does: doing{write: true, defines: true}}
	if !st.Confined.Apart { // else it calls none of the functions that it names, and may be run again
		r.sql = []string{st.Text}
	}
	switch {
	case yields && st.Confined.To:
		r.way.yields = 1
	case yields:
		r.way.yields = triesUnnamed
	}
	failed, err := f.executing.execute(r, &rep)
	if err == nil && rep.yielded {
		return f.define(&st)
	}
	return failed, err
}

// triesUnnamed is how often a definition runs here, whose tables nobody can name, before it is ordered as a barrier
// for all.
const triesUnnamed = 6

// surroundings are what decides where a definition runs.
type surroundings struct {
	temporary bool // every relation it names is temporary
	// another session has a lock on one of them, or below, that matters, or on what describes it; outside a block
	locked  bool
	private bool // the session has temporary objects, or may not write, or its text is not in UTF-8
	large   bool // a relation that it names is; then one member after the other would work long, see first
	watched bool // there are event triggers of users: they fire here alone, and what they write is replicated
}

// site is where a definition runs.
type site uint8

const (
	amongTemporary site = iota // here, like a statement that writes
	inTransaction              // here, inside of a transaction
	hereFirst                  // at this member first, in a transaction of its own
	inOrder                    // at every member, at its place in the order
)

// site chooses where a definition runs; active says that there is a block.
func (a surroundings) site(st *semantics.Statement, active bool) site {
	switch {
	case a.temporary:
		return amongTemporary
	case active || st.Here || a.watched && !st.Quiet:
		return inTransaction
	case a.first(st):
		return hereFirst
	}
	return inOrder
}

// first reports whether a definition outside of a block runs at this member first. Then it waits there for sessions
// that have locked what it is about, and it finds the session's temporary objects. If nobody can name its tables
// before, its locks do then.
func (a surroundings) first(st *semantics.Statement) bool {
	switch {
	case st.Quiet:
		return false
	case a.private || a.locked && !a.beside(st):
		return true
	}
	return !st.Confined.To && st.Alone == ""
}

// beside reports whether a definition may take long, and others should not wait for it meanwhile.
func (a surroundings) beside(st *semantics.Statement) bool {
	// whose table is always called large
	return st.Concurrent != nil || st.Long == semantics.LongSnapshot || a.large && st.Long != semantics.NotLong &&
		st.Long != semantics.LongAttached
}

// spell puts columns in the place of the LIKE clauses that name temporary relations, which other members do not have.
func (f *definitions) spell(st *semantics.Statement) error {
	if f.txn.Failed() || len(st.Likes) == 0 {
		return nil
	}
	if f.txn.Active() {
		if err := f.tx.ensureOpen(true); err != nil {
			return err
		}
	}
	for i := len(st.Likes) - 1; i >= 0; i-- {
		r, rows, err := f.backend.ask(columnsOfTemporary + "pg_catalog.to_regclass(" +
			quoted(st.Likes[i].Relation) + ")")
		if err != nil {
			return err
		}
		if r.failed == nil && len(rows) == 1 && rows[0][0] != nil {
			st.Spell(i, string(rows[0][0]))
		}
	}
	return nil
}

// columnsOfTemporary asks for the columns of a temporary relation, as LIKE takes them; nothing for any other relation.
const columnsOfTemporary = "SELECT pg_catalog.string_agg(pg_catalog.concat(" +
	`pg_catalog.quote_ident(a.attname), ' ', pg_catalog.format_type(a.atttypid, a.atttypmod),
  (SELECT pg_catalog.format(' COLLATE %I.%I', n.nspname, k.collname) FROM pg_catalog.pg_collation k JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) k.collnamespace
    WHERE k.oid OPERATOR(pg_catalog.=) a.attcollation AND a.attcollation OPERATOR(pg_catalog.<>) y.typcollation),
  CASE WHEN a.attnotnull THEN ' NOT NULL' END), ', ' ORDER BY a.attnum)
  FROM pg_catalog.pg_class c JOIN pg_catalog.pg_attribute a ON a.attrelid OPERATOR(pg_catalog.=) c.oid JOIN pg_catalog.pg_type y ON y.oid OPERATOR(pg_catalog.=) a.atttypid
  WHERE c.relpersistence OPERATOR(pg_catalog.=) 't' AND a.attnum OPERATOR(pg_catalog.>) 0::pg_catalog.int2 AND NOT a.attisdropped AND c.oid OPERATOR(pg_catalog.=) `

// look finds them out.
func (f *definitions) look(st semantics.Statement) (around surroundings, err error) {
	if f.txn.Failed() || f.txn.Active() && len(st.Relations) == 0 {
		return around, nil
	}
	if f.txn.Active() {
		if err := f.tx.ensureOpen(true); err != nil {
			return around, err
		}
	}
	names := make([]string, len(st.Relations))
	for i, r := range st.Relations {
		names[i] = "pg_catalog.to_regclass(" + quoted(r) + ")"
	}
	// A name of too many parts fails here; the definition then tells the client why.
	r, rows, err := f.backend.ask(f.extents.AskAround(&st, names))
	if err != nil || r.failed != nil || len(rows) != 1 {
		return around, err
	}
	yes := func(i int) bool { return string(rows[0][i]) == "t" }
	return surroundings{yes(0), yes(1), yes(2), yes(3), yes(4)}, nil
}

// define has a definition take its place in the order.
func (f *definitions) define(st *semantics.Statement) (bool, error) {
	d, err := f.carrying.described(st.Text)
	if err != nil {
		return true, err
	}
	d.Cluster, d.Limits = st.Cluster, f.backend.waitLimits
	var r Result
	for looks := 1; ; looks++ {
		d.Base = f.host.Applied() // before the tables are looked up
		if err := f.lookUp(st, &d); err != nil {
			return true, err
		}
		d.Extent.Shared, d.InVain = st.Shared, looks >= looksBeside
		if r = f.host.Define(d); r.Err == nil || r.Err.Code != wire.CodeTuttiOutdated || looks == looksMax {
			break
		}
	}
	if r.Err != nil && (r.Err.Code == wire.CodeTuttiWider || r.Err.Code == wire.CodeTuttiOutdated) {
		d.Extent, d.SQL, d.Index = &writeset.Writeset{Barrier: true, Shared: st.Shared}, st.Text, Index{}
		r = f.host.Define(d)
	}
	if st.Shared && r.Err != nil && r.Err.Code == wire.CodeDependentObjects && !f.host.Main() {
		if err := f.dependent(st, &r); err != nil {
			return true, err
		}
	}
	return r.Err != nil, f.block.answer(r, false)
}

// lookUp finds out what a definition may change, and whether beside everything else.
func (f *definitions) lookUp(st *semantics.Statement, d *Definition) (err error) {
	if err := f.concurrent(st, d); err != nil {
		return err
	}
	if err := f.finalizes(st, d); err != nil || d.Index.Name != "" {
		return err
	}
	d.Extent, err = f.extent(st)
	return err
}

// dependent has a definition refused in the words of this database, if objects of it are why: the first one, where it
// was refused, can only count those of others.
func (f *definitions) dependent(st *semantics.Statement, r *Result) error {
	if f.host.Enter(PhaseRunning) != nil { // it has been cancelled, and refused before that
		return nil
	}
	defer f.host.Enter(PhaseIdle)
	here, _, err := f.backend.ask("BEGIN READ WRITE", "SET LOCAL lock_timeout = '1s'", st.Text)
	if err != nil {
		return err
	}
	if here.failed != nil && here.failed.Code == r.Err.Code {
		r.Err = failureOf(here)
	}
	for here.status != wire.TxIdle && err == nil { // a cancel meant for what came before may hit it
		here, _, err = f.backend.ask("ROLLBACK")
	}
	return err
}

// looksMax is how often the tables of a definition are looked up before it is a barrier: each time others have
// defined one of them meanwhile.
const looksMax = 20

// looksBeside is after how many of them it waits for those of its own member.
const looksBeside = 3

// concurrent finds out whether a definition may be carried out beside everything else.
func (f *definitions) concurrent(st *semantics.Statement, d *Definition) error {
	d.SQL, d.Index = st.Text, Index{}
	if st.Concurrent == nil {
		return nil
	}
	r, rows, err := f.backend.ask(f.extents.AskConcurrent(st.Concurrent))
	if err != nil || r.failed != nil || len(rows) != 1 {
		return err
	}
	if d.Index, d.Extent, err = f.extents.Concurrent(rows[0][0], st.Concurrent); err == nil && d.Index.Name != "" {
		d.SQL = st.Concurrent.Text
	}
	return err
}

// extent is which tables a definition may change.
func (f *definitions) extent(st *semantics.Statement) (*writeset.Writeset, error) {
	var answer []byte
	if st.Confined.To {
		r, rows, err := f.backend.ask(f.extents.AskExtent(st))
		if err != nil {
			return nil, err
		}
		// Else a name of too many parts, of which the definition tells the client, or other names than we can read.
		if r.failed == nil && len(rows) == 1 && utf8.Valid(rows[0][0]) {
			answer = rows[0][0]
		}
	}
	return f.extents.Extent(answer, st)
}

// described is a definition with the session's settings.
func (g *carrying) described(sql string) (Definition, error) {
	carried := g.steps.Carried()
	list := make([]string, 0, len(carried)+1)
	list = append(list, inUTF8("current_user"))
	for _, c := range carried {
		list = append(list, inUTF8("pg_catalog.current_setting('"+c+"', true)"))
	}
	rows, err := g.backend.query("SELECT " + strings.Join(list, ","))
	if err != nil {
		return Definition{}, err
	}
	d := Definition{SQL: sql}
	for i, name := range append([]string{RoleSetting}, carried...) {
		if rows[0][i] == nil {
			continue
		}
		v, err := hex.DecodeString(string(rows[0][i]))
		if err != nil {
			return Definition{}, fmt.Errorf("session: %s is %q: %w", name, rows[0][i], err)
		}
		d.Settings = append(d.Settings, Setting{name, string(v)})
	}
	return d, nil
}
