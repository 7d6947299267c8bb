package session

import (
	"cmp"
	"strconv"

	"github.com/tuttidb/tutti/internal/wire"
)

// A direct UPDATE of a row that it finds by its key, to what its parameters say, needs to see nothing but that the row
// is there. Where it is a transaction of its own, it is not run by the session's backend: it is ordered as it is, and
// every member's executor carries it out, this one's, too, together with others (decision
// 0057). Such a transaction conflicts with nobody. If the row is not there, or too much would be added to it, nothing
// has happened, and it is run as what it is.

// sight is what a session has to have seen before it goes blind.
type sight struct {
	// who it is, see Returned.Who: told by the last direct statement that was committed, if nothing has been run since
	// that may have changed it.
	who    string
	odd    bool  // in the block something was run that may have changed it
	asked  bool  // the backend was, and nothing has been run since that may have changed it
	within bool  // it has answered in the transaction that is open
	turn   int   // counts how often it may have changed
	since  bool  // the last transaction has run something that may have changed it, perhaps until its end only
	late   int64 // by Host.Clock: when its backend is to be asked whether there is something new
}

// lose forgets who the session is: something is run that may change it.
func (v *sight) lose() {
	v.who, v.odd, v.asked, v.since = "", true, false, true
	v.turn++
}

// begin begins a transaction.
func (v *sight) begin() {
	if v.since {
		v.turn++
	}
	v.since = false
}

// sightMs is for how many milliseconds a session does not ask its backend, which may have been ended, or told of other
// settings, meanwhile.
const sightMs = 250

// blindTries is after how many losses a statement does not give way any more to others that it might get in the way of.
const blindTries = 5

// looks asks the backend now and then whether there is something new, and reports whether the session still knows who
// it is.
func (b *buffer) looks() (bool, error) {
	if now := b.host.Clock(); now >= b.sight.late {
		b.sight.late = now + sightMs
		if b.txn.Open() { // it has just been asked something
			return true, nil
		}
		b.backend.out.Append(wire.AppendSync(b.backend.out.AvailableBuffer()))
		if _, err := b.backend.quiet(); err != nil {
			return false, err
		}
	}
	return b.sight.who != "", nil
}

// answerAlone tells the client of a request, which is one statement without rows, what that has done.
func (b *buffer) answerAlone(r *request, rep *reply, tag string) error {
	p := &r.way.direct.parts[0]
	p.parsed = false // at a try before
	var frames []wire.Frame
	if !r.way.direct.query {
		if err := p.tellParsed(rep, b.results.Emit); err != nil {
			return err
		}
		rep.done++
		frames = append(frames, wire.Frame{Type: wire.TypeBindComplete, Raw: wire.AppendBindComplete(nil)})
		if p.describes {
			rep.done++
			frames = append(frames, p.description())
		}
	}
	rep.done++
	frames = append(frames, wire.Frame{Type: wire.TypeCommandComplete, Raw: wire.AppendCommandComplete(nil, tag)})
	for _, f := range frames {
		if err := b.results.Emit(f); err != nil {
			return err
		}
	}
	return nil
}

// sees notes who the session is when a transaction was committed that has run nothing which might have changed that.
func (b *buffer) sees() {
	// else it may have temporary tables, of the names of others
	if !b.sight.odd && b.direct.clean && b.direct.who != "" {
		b.sight.who = b.direct.who
	}
}

// noteSight notes of a direct statement that has changed one row whether it could have done so unseen: if the row is
// the one that its parameters tell.
func (b *buffer) noteSight(p *directPart) {
	f := p.form
	if f.how == nil || b.retry.busy || len(p.rows) != 1 {
		return
	}
	if shape, ok := f.how.Proves(p.bind, p.rows[0]); ok {
		f.blindShape, f.blind = shape, true
	}
}

// meant makes sure that a direct request which has changed nothing meant the table that it was made for: if the session
// has become somebody else since, the names in its text may mean another one, whose triggers have written unseen. Rows
// tell by themselves.
func (b *buffer) meant(r *request) error {
	for i := range r.way.direct.parts {
		p, v := &r.way.direct.parts[i], b.sight
		f := p.form
		switch {
		case f.how == nil, b.txn.Reason() != nil:
			return nil
		case p.count > 0:
			f.turn = v.turn
		case f.turn == v.turn, v.who != "" && f.who == v.who:
		default:
			if same, err := b.asksMeaning(f); err != nil || !same {
				return err
			}
			f.turn = v.turn
		}
	}
	return nil
}

// asksMeaning asks the backend whether the name of a form's table still means it. If not, the transaction has lost.
func (b *buffer) asksMeaning(f *form) (same bool, err error) {
	d, _ := f.direct(b.forms.find)
	r, rows, err := b.backend.ask("SELECT pg_catalog.to_regclass(" + quoted(d.Relation) + ")::pg_catalog.oid")
	if err != nil {
		return false, err
	}
	if r.failed == nil && len(rows) == 1 && string(rows[0][0]) == strconv.FormatUint(uint64(f.how.Target().Table), 10) {
		return true, nil
	}
	b.forms.mistaken()
	b.txn.Condemn(cmp.Or(b.host.Enter(PhaseRunning), errForgotten(outdatedStatement)))
	return false, nil
}
