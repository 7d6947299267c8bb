package membership

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/process"
	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/wire"
)

// Lost is what a member that goes on without others does about them: they are lost (config.Lost), and on the list.
type Lost struct {
	Config     *config.Config
	Log        *slog.Logger
	ConnString string // of the main database
	// Ready reports whether this member serves.
	Ready func() bool
	// Order has the order change the list; it returns when that has been carried out here.
	Order func(m semantics.Membership) *wire.SQLError
}

// Between two tries to remove those who are lost, each time twice as long.
const (
	removeFirst = 100 * time.Millisecond
	removeMost  = 5 * time.Second
)

// Run has the order remove them, until they are, or this member is none any more.
func (x Lost) Run(ctx context.Context) {
	for wait := removeFirst; x.Config.Losing() && x.Config.IsMember(x.Config.Member) && process.Sleep(ctx, wait); {
		if !x.Ready() {
			continue
		}
		if err := x.remove(ctx); err != nil {
			wait = min(2*wait, removeMost)
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
		list = slices.Concat(r.Members, r.Witnesses)
	}
	if self := x.Config.Self(); self.Role == config.Learner { // or nobody would be left who votes
		if e := x.Order(semantics.Membership{Does: semantics.PromotesMember, Name: self.Name}); e != nil {
			return e
		}
	}
	for _, m := range list {
		if !x.Config.IsLost(m.Member) {
			continue
		}
		if e := x.Order(semantics.Membership{Does: semantics.RemovesMember, Name: m.Name}); e != nil {
			return e
		}
	}
	return nil
}
