package session

import (
	"github.com/tuttidb/tutti/internal/session/plan"
	"github.com/tuttidb/tutti/internal/session/proto"
	"github.com/tuttidb/tutti/internal/session/txn"
	"github.com/tuttidb/tutti/internal/wire"
)

// plain runs requests that only read as they are, outside of any transaction of ours. What turns out to write is run as
// a transaction of its own.
type plain struct {
	backend *backend
	host    plainHost
	planned func(plan.Plan)

	txn      *txn.Machine
	tx       *transaction
	alone    *alone
	relaying *relaying
	texts    *texts
	named    *named
	advisory *advisory
	results  *proto.Results
	out      *wire.Writer // to the client
}

// plainHost is what it needs of the node.
type plainHost struct {
	Control
	Intents
}

// lateCancels is how often a request is repeated that a cancel of ours has hit late, inTheWay how often one that
// maintains tables and was in the way: at one server it would wait.
const (
	lateCancels = 8
	inTheWay    = 16
)

// run runs a request that only reads, as far as its text tells. If it turns out
// to write, capture has refused it (TT001), or PostgreSQL, nothing happened, and it is run as a write.
func (p *plain) run(r request, rep *reply) (_ bool, err error) {
	guarded := p.texts.guarded(&r)
	p.planned(plan.Plan{Kind: plan.Plain})
	if err := p.read(&r, rep, guarded); err != nil {
		return true, err
	}
	p.txn.Alone()
	again, wrote := false, refusedWrite(rep, guarded)
	if wrote {
		p.named.writes(r.sql)
	}
	if wrote || p.spent(&r, rep) {
		if again, err = p.advisory.giveBack(); err != nil {
			return true, err
		}
	}
	switch {
	case again && !p.results.Spilled():
		p.results.Drop()
		return p.alone.autocommit(r, rep)
	case wrote:
		p.results.Drop()
		p.out.Append(wire.Errorf(wire.CodeFeatureNotSupported, "a query wrote to a table after it had returned rows").
			WithHint("Run it again; it is now known to write.").Append(nil))
		return true, nil
	}
	p.results.Release()
	return rep.failed != nil, nil
}

// spent reports whether a request has failed at the end of a sequence's chunk. From a transaction it can be repeated as
// often as it takes.
func (p *plain) spent(r *request, rep *reply) bool {
	return rep.failed != nil && p.relaying.moved && !p.results.Spilled() && !r.does.local
}

// read has the backend carry a request out, and again if a cancel has hit it that was meant for the transaction that
// was rolled back under the client.
func (p *plain) read(r *request, rep *reply, guarded bool) (err error) {
	for try := 0; ; try++ {
		if guarded {
			p.backend.guard()
		}
		p.named.unnamed.sent(r)
		p.backend.out.Append(r.frames)
		p.results.Hold(false)
		p.advisory.attempt()
		p.relaying.moved = false
		if *rep, err = p.relaying.relay(*r); err != nil {
			return err
		}
		forgot, err := p.tx.recover()
		if err != nil {
			return err
		}
		late := r.repeatsLate(forgot, p.txn.Reason() != nil && rep.failed != nil &&
			rep.failed.Code == wire.CodeQueryCanceled && !p.host.Cancelled())
		most := lateCancels
		if r.does.maintain {
			most = inTheWay
		}
		if !late || p.results.Spilled() || try == most {
			return nil
		}
		p.results.Drop()
		if r.does.maintain {
			if failure := p.maintains(try + 1); failure != nil {
				p.host.Enter(PhaseIdle)
				rep.failed = &failure.ErrorFields
				return p.results.Emit(wire.Frame{Type: wire.TypeErrorResponse, Raw: failure.Append(nil)})
			}
		}
		if err := p.backend.close(closeFirst(*r, rep.parsed)); err != nil {
			return err
		}
	}
}

// maintains comes before what maintains tables is run again. At once it would be in the way again, of the same
// sessions. It has begun nothing meanwhile, so what it loses to then does it no harm.
func (p *plain) maintains(try int) (failure *wire.SQLError) {
	for ; ; try++ {
		p.txn.Alone()
		p.host.Enter(PhaseIdle)
		if failure = p.host.Enter(PhaseRunning); failure == nil { // the client may cancel it
			failure = p.host.Maintains(try, p.backend.waitLimits)
		}
		if failure == nil || failure.Code != wire.CodeSerializationFailure || try >= inTheWay {
			return failure
		}
	}
}
