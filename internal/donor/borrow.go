package donor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/database/embedded"
	"github.com/tuttidb/tutti/internal/database/instance"
	"github.com/tuttidb/tutti/internal/process"
)

const (
	// askFirst is how long a member rests after all have failed to lend, twice as long after each time, up to askMost.
	// sayEvery is how often it says why.
	// A copy that breaks off half way is work for both, so it may be up to brokenMost until the next one.
	askFirst   = 500 * time.Millisecond
	askMost    = 8 * time.Second
	brokenMost = 4 * time.Minute
	sayEvery   = 10 * time.Second
	// stillMost is how long nothing may come of a copy, and beginMost how long before its first byte: the donor's
	// server writes out all that it has in memory before that.
	stillMost = time.Minute
	beginMost = 5 * time.Minute
	// progressBytes is how much comes between two words of how far the copy is.
	progressBytes = 64 << 20
)

// Borrower copies the database of another member.
type Borrower struct {
	Log *slog.Logger
	// Call reaches a member, for a copy of what is asked for.
	Call func(ctx context.Context, member uint32, address, asked string) (net.Conn, error)
	// Asked is Current or First.
	Asked string
	// Waits takes what is being done, for who asks why this member serves nobody.
	Waits func(what string)
}

// Copy fills a data directory from a donor (instance.CloneFrom, instance.Replace).
type Copy func(ctx context.Context, donor *pgconn.Config, progress func(bytes int64)) error

// From copies from the first of members that lends, and asks them again and again until one does (DO4), those last from
// which nothing came any more. It returns an error if ctx ends, or if trying again cannot help.
func (b *Borrower) From(ctx context.Context, members []config.Member, fill Copy) error {
	var said string
	var since time.Time
	most := askMost
	for rest := askFirst; ; rest = min(2*rest, most) {
		var refused []string
		var next, still []config.Member
		most = askMost
		for _, m := range members {
			bytes, err := b.copy(ctx, m, fill)
			if err == nil || ctx.Err() != nil || hopeless(err) {
				return err
			}
			if bytes > 0 {
				most = brokenMost
			}
			if errors.Is(err, errStill) {
				still = append(still, m)
			} else {
				next = append(next, m)
			}
			refused = append(refused, m.Name+": "+err.Error())
		}
		members = append(next, still...)
		why := "a copy of another member's database is needed, and none can be had yet: " + strings.Join(refused, "; ")
		b.Waits(why)
		if why != said || time.Since(since) >= sayEvery {
			b.Log.Warn("waits for a copy of another member's database", "why", why)
			said, since = why, time.Now()
		}
		if !process.Sleep(ctx, rest) {
			return context.Cause(ctx)
		}
	}
}

// copy copies from one member, and says how much has come.
func (b *Borrower) copy(ctx context.Context, from config.Member, fill Copy) (bytes int64, err error) {
	var refused error
	var w watch
	donor, err := instance.Through(from.Name, func(ctx context.Context) (net.Conn, error) {
		var conn net.Conn
		if conn, refused = b.Call(ctx, from.Member, from.Address, b.Asked); refused != nil {
			return nil, refused
		}
		return &watched{conn, &w}, nil
	})
	if err != nil {
		return 0, err
	}
	began := time.Now()
	var told int64
	said := began
	err = fill(ctx, donor, func(n int64) {
		w.begun.Store(true)
		if bytes = n; told == 0 || n-told >= progressBytes {
			told = n
			b.Waits(fmt.Sprintf("the database is copied from %s: %d MB have come", from.Name, n>>20))
		}
		if time.Since(said) >= sayEvery {
			said = time.Now()
			b.Log.Info("copies another member's database", "donor", from.Name, "bytes", n, "time", time.Since(began))
		}
	})
	if err != nil && refused != nil {
		return bytes, refused // that it could not be connected to says less
	}
	if err != nil && w.over.Load() {
		return bytes, fmt.Errorf("%w after %d bytes", errStill, bytes)
	}
	if err != nil {
		return bytes, err
	}
	b.Log.Info("has a copy of another member's database", "donor", from.Name, "bytes", bytes,
		"time", time.Since(began))
	return bytes, nil
}

// errStill is in the chain of why a copy was broken off whose donor stands still.
var errStill = errors.New("nothing came from it any more")

// watch breaks a copy off of which nothing comes.
type watch struct {
	begun atomic.Bool // something of it has come
	over  atomic.Bool // it was broken off
}

// watched is one of its connections. Only while it is read from does the donor owe something.
type watched struct {
	net.Conn
	w *watch
}

func (c *watched) Read(b []byte) (int, error) {
	most := beginMost
	if c.w.begun.Load() {
		most = stillMost
	}
	late := time.AfterFunc(most, func() {
		c.w.over.Store(true)
		c.Close()
	})
	defer late.Stop()
	return c.Conn.Read(b)
}

// hopeless reports whether trying again cannot help: there is a database already, or no fitting PostgreSQL here.
func hopeless(err error) bool {
	var setup *embedded.SetupError
	return errors.Is(err, instance.ErrInitialized) || errors.Is(err, instance.ErrRunning) || errors.As(err, &setup)
}

// Donors lists the other members of a list, the leader last (DO2).
func Donors(members []config.Member, self, leader uint32) []config.Member {
	list := slices.DeleteFunc(slices.Clone(members), func(m config.Member) bool { return m.Member == self })
	slices.SortStableFunc(list, func(a, b config.Member) int {
		switch {
		case a.Member == leader:
			return 1
		case b.Member == leader:
			return -1
		}
		return 0
	})
	return list
}
