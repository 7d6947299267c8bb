package forced

import (
	"fmt"
	"math"

	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/ordering"
)

// decided is a log up to an entry, all of which counts as decided (FO1). It is only read.
type decided struct {
	ordering.Storage
	last uint64
}

// InitialState has the log be decided as far as it goes.
func (d decided) InitialState() (*ordering.HardState, *ordering.ConfState, error) {
	state, conf, err := d.Storage.InitialState()
	if err != nil {
		return nil, nil, err
	}
	return &ordering.HardState{Term: new(state.GetTerm()), Vote: new(state.GetVote()), Commit: new(d.last)}, conf, nil
}

// LastIndex is the last entry that counts.
func (d decided) LastIndex() (uint64, error) { return d.last, nil }

// ordered gives each transaction that a log has decided to commit, up to an entry, in order, and says which ordinal was
// the last one. The checkpoint is what the log begins behind; nil if it is whole.
func ordered(log ordering.Storage, member uint32, last uint64, checkpoint []byte,
	each func(t *engine.Task) error) (ordinal uint64, err error) {
	o := engine.Options{Member: member, Incarnation: math.MaxUint32,
		Order:        ordering.Options{Storage: decided{log, last}},
		KeptItemsMax: 1} // nothing is kept back: nobody would let it go
	if checkpoint != nil {
		c, err := engine.DecodeCheckpoint(checkpoint)
		if err != nil {
			return 0, err
		}
		if c.Index > last {
			return 0, fmt.Errorf("its database has a checkpoint of entry %d, behind entry %d", c.Index, last)
		}
		o.Checkpoint, o.Position = c, engine.Position{Member: member, Ordinal: c.Ordinal, Floor: c.Ordinal}
	} else if first, err := log.FirstIndex(); err != nil {
		return 0, err
	} else if first > 1 {
		return 0, fmt.Errorf("its log begins with entry %d, and its database has no checkpoint", first)
	}
	e, err := engine.New(o)
	if err != nil {
		return 0, err
	}
	for e.HasReady() {
		rd := e.Ready()
		e.Advance()
		if rd.Group == nil {
			continue
		}
		for i := range rd.Group.Tasks {
			if err := each(&rd.Group.Tasks[i]); err != nil {
				return 0, err
			}
		}
		e.GroupDone()
	}
	if e.Applied() < e.Ordinal() {
		return 0, fmt.Errorf("of %d ordinals only %d could be taken from its log", e.Ordinal(), e.Applied())
	}
	return e.Ordinal(), nil
}
