package membership

import (
	"context"
	"log/slog"
	"time"

	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/process"
	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/wire"
)

// Lost is what a member that goes on alone does about the others, which are lost (config.Forced).
type Lost struct {
	Config     *config.Config
	Log        *slog.Logger
	ConnString string // of the main database
	// Ready reports whether this member serves.
	Ready func() bool
	// Remove has the order remove one; it returns when that has been carried out here.
	Remove func(m semantics.Membership) *wire.SQLError
}

// From takes those who are lost from a list; nil is that of the configuration. When there is nobody to take they are
// removed, and that is over.
func (x Lost) From(r *config.Roster) *config.Roster {
	gone := 0
	if r != nil {
		gone = len(r.Gone)
	}
	if alone := Alone(r, x.Config); len(alone.Gone) > gone {
		x.Log.Warn("this member goes on without all others, as an operator has said (tutti recover --force)",
			"lost", len(alone.Gone)-gone)
		return alone
	}
	if err := x.Config.ForcedOver(); err != nil {
		x.Log.Error("no member can be added: the mark that the others are lost stays", "error", err)
	}
	return r
}

// removeEvery is between two tries to remove those who are lost.
const removeEvery = 100 * time.Millisecond

// Run has the order remove them, until they are.
func (x Lost) Run(ctx context.Context) {
	for x.Config.Forced() && process.Sleep(ctx, removeEvery) {
		if !x.Ready() {
			continue
		}
		if err := x.remove(ctx); err != nil {
			x.Log.Warn("the members that are lost cannot be removed yet; trying again", "error", err)
		}
	}
}

func (x Lost) remove(ctx context.Context) error {
	r, err := Read(ctx, x.ConnString)
	if err != nil {
		return err
	}
	list := x.Config.Members
	if r != nil {
		list = r.Members
	}
	for _, m := range list {
		if m.Member == x.Config.Member {
			continue
		}
		if e := x.Remove(semantics.Membership{Does: semantics.RemovesMember, Name: m.Name}); e != nil {
			return e
		}
	}
	return nil
}
