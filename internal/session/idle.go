package session

import (
	"errors"

	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/wire"
)

// wait waits for the client's next frame. Meanwhile it passes on what the backend says: at once if the
// session listens, otherwise from the first time on that the read times out, which the
// node makes it do when the client has been silent for a while.
func (s *Session) wait() (wire.Frame, error) {
	defer s.listener.unwatch()
	silent := s.listener.listens && !s.batch.gathering
	for {
		phase := PhaseIdle
		if s.txn.Open() {
			phase = PhaseWaiting
		}
		again, err := s.attend(phase, silent)
		if err != nil {
			return wire.Frame{}, err
		}
		if again {
			continue
		}
		if silent {
			s.listener.watch()
		}
		_ = s.o.Host.SerialRuns(false) // it gives back only
		f, err := s.batch.pause.read(s.in, s.o.Host.Clock)
		if !isTimeout(err) {
			return s.waited(f, err, phase)
		}
		silent = true
	}
}

// attend does what is due before each read from the client. It reports whether the session is to look again what is.
func (s *Session) attend(phase Phase, silent bool) (again bool, err error) {
	if doom := s.o.Host.Enter(phase); doom != nil {
		s.listener.unwatch()
		if doom.Severity == wire.SeverityFatal { // it is the session that is lost
			return false, s.block.fail(doom)
		}
		return true, s.tx.undo(doom)
	}
	if err := s.leaves(); err != nil {
		return false, err
	}
	if s.tx.ahead.asked {
		if err := s.tx.takeAhead(); err != nil || !s.txn.Open() {
			return true, err
		}
	}
	if s.listener.heard() {
		if err := s.relaying.hear(); err != nil {
			return false, err
		}
	}
	return s.settleSilence(silent)
}

// waited is what a read from the client has brought. The transaction may have lost meanwhile.
func (s *Session) waited(f wire.Frame, err error, phase Phase) (wire.Frame, error) {
	if doom := s.o.Host.SerialRuns(true); doom != nil && s.txn.Open() {
		s.listener.unwatch()
		return f, errors.Join(s.relaying.badFrame(err), s.tx.undo(doom))
	}
	s.listener.unwatch()
	if err == nil && s.txn.Open() {
		// A frame that comes together with a doom hides it: the read does not time out.
		if doom := s.o.Host.Enter(phase); doom != nil {
			err = s.tx.undo(doom)
		}
	}
	return f, s.relaying.badFrame(err)
}

// settleSilence does what can wait no longer when the client is silent: it runs what was gathered, or what would be
// carried out unseen and has no locks yet, or opens the transaction of a block, which is subject to
// idle_in_transaction_session_timeout.
func (s *Session) settleSilence(silent bool) (ran bool, err error) {
	switch {
	case silent && s.batch.gathering:
		s.batch.gathering = false
		return true, s.runGathered()
	case silent && len(s.buffer.later.unseen) > 0 && s.txn.Reason() == nil:
		return true, s.blocks.caughtUp()
	case silent && s.txn.Active() && !s.txn.Implicit() && !s.txn.Open() && s.txn.Reason() == nil:
		err = s.blocks.openEarly()
		return s.txn.Open(), err
	}
	return false, nil
}

// runGathered runs what the client has sent without a Sync or Flush, since it has been silent for a while: it may wait
// for an error, which PostgreSQL would tell at once. Definitions wait for the Sync: most can be alone only then.
func (s *Session) runGathered() error {
	for i := range s.batch.messages {
		if of := s.batch.messages[i].of; of != nil && of.statement.Kind == semantics.Definition {
			return nil
		}
	}
	if doom := s.o.Host.SerialRuns(true); doom != nil && s.txn.Open() {
		if err := s.tx.undo(doom); err != nil {
			return err
		}
	}
	if err := s.process(false); err != nil {
		return err
	}
	return s.out.Flush()
}
