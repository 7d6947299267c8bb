package notices

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tuttidb/tutti/internal/replica"
	"github.com/tuttidb/tutti/internal/writeset"
)

// Payload of a listen item, version 1: byte version, then twice a number of channels and their names,
// length-prefixed: those that sessions of the member listen to from now on, and those that none does.
const channelsVersion = 1

func encodeChannels(add, remove []string) []byte {
	b := []byte{channelsVersion}
	for _, list := range [][]string{add, remove} {
		b = binary.AppendUvarint(b, uint64(len(list)))
		for _, c := range list {
			b = writeset.AppendBytes(b, []byte(c))
		}
	}
	return b
}

func decodeChannels(b []byte) (add, remove []string, err error) {
	r := writeset.NewReader(b)
	if v := r.Byte(); v != channelsVersion {
		return nil, nil, fmt.Errorf("channels in the log have version %d, this build knows %d: %w", v, channelsVersion,
			writeset.ErrUnknown)
	}
	for _, list := range []*[]string{&add, &remove} {
		for range r.Count(1) {
			*list = append(*list, string(r.Bytes()))
		}
	}
	return add, remove, r.Done()
}

// channels is who listens to what. The members' sets are replicated: every member changes them in order,
// and keeps them in its database (tutti.listening).
type channels struct {
	mu      sync.Mutex
	changed sync.Cond
	max     int
	sets    replica.Listening

	announced chan struct{} // capacity 1: the announcement under way is carried out here
	due       chan struct{} // capacity 1: there may be something to announce
}

func (c *channels) init(self uint32, max int) {
	c.changed.L = &c.mu
	c.max, c.sets = max, replica.NewListening(self)
	c.announced, c.due = make(chan struct{}, 1), make(chan struct{}, 1)
}

// set limits how many channels there may be.
func (c *channels) set(max int) {
	c.mu.Lock()
	c.max = max
	c.mu.Unlock()
}

// heard reports whether a session of this member listens.
func (c *channels) heard(channel string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sets.Heard(channel)
}

// away reports whether any other member's sessions listen.
func (c *channels) away() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sets.Away()
}

// count is the number of channels this member's sessions listen to.
func (c *channels) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sets.Count()
}

// full reports whether further channels would be too many.
func (c *channels) full(channels []string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	fresh := 0
	for _, name := range channels {
		if !c.sets.Heard(name) {
			fresh++
		}
	}
	return fresh > 0 && c.sets.Count()+fresh > c.max
}

// replace notes that a session listens to other channels than before.
func (c *channels) replace(before, now []string) {
	c.mu.Lock()
	c.sets.Replace(before, now)
	c.mu.Unlock()
	c.kick()
}

func (c *channels) kick() {
	select {
	case c.due <- struct{}{}:
	default:
	}
}

// begin is called when the order is carried out up to this life's fence.
func (c *channels) begin(ordinal uint64) {
	c.mu.Lock()
	c.sets.Begin(ordinal)
	c.mu.Unlock()
	c.kick()
}

// difference is what the order must be told, and takes that as told.
func (c *channels) difference() (add, remove []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sets.Difference()
}

// change carries out a member's announcement and returns what this member's listener must listen to from
// now on, and no longer.
func (c *channels) change(member uint32, add, remove []string) (listen, unlisten []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sets.Change(member, add, remove)
}

// carried notes that this life's announcement is carried out here.
func (c *channels) carried(ordinal uint64, add []string) {
	c.mu.Lock()
	c.sets.Carried(ordinal, add)
	c.mu.Unlock()
	c.announced <- struct{}{}
	c.wake()
}

// wake makes sessions that wait look again.
func (c *channels) wake() {
	c.mu.Lock() // so that nobody is between looking and waiting
	c.mu.Unlock()
	c.changed.Broadcast()
}

// await waits until done says so of the ordinal from which on the order knows all the channels, or the
// time is up. It returns that ordinal, zero if the order does not know them.
func (c *channels) await(names []string, wait time.Duration, done func(since uint64) bool) (since uint64, ok bool) {
	over := time.Now().Add(wait)
	timer := time.AfterFunc(wait, c.wake)
	defer timer.Stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		switch since = c.sets.Since(names); {
		case len(names) == 0 || since > 0 && done(since):
			return since, true
		case !time.Now().Before(over):
			return since, false
		}
		c.changed.Wait()
	}
}

// readChannels reads who listened to what when the database was left.
func readChannels(ctx context.Context, conn *pgx.Conn) (map[uint32][]string, error) {
	rows, err := conn.Query(ctx, "SELECT member, channel FROM tutti.listening")
	if err != nil {
		return nil, fmt.Errorf("notices: read who listens: %w", err)
	}
	out := map[uint32][]string{}
	var member int32
	var channel string
	_, err = pgx.ForEachRow(rows, []any{&member, &channel}, func() error {
		out[uint32(member)] = append(out[uint32(member)], channel)
		return nil
	})
	return out, err
}

// keepChannels stores a member's announcement. It need not travel with the progress row: carrying it
// out again, up to where the order has been carried out, gives the same.
func keepChannels(ctx context.Context, conn *pgconn.PgConn, member uint32, add, remove []string) error {
	var sql strings.Builder
	for _, x := range add {
		fmt.Fprintf(&sql, "INSERT INTO tutti.listening VALUES (%d, '%s') ON CONFLICT DO NOTHING;", member, quoted(x))
	}
	for _, x := range remove {
		fmt.Fprintf(&sql, "DELETE FROM tutti.listening WHERE member = %d AND channel = '%s';", member, quoted(x))
	}
	if _, err := conn.Exec(ctx, sql.String()).ReadAll(); err != nil {
		return fmt.Errorf("notices: store who listens: %w", err)
	}
	return nil
}

func quoted(s string) string { return strings.ReplaceAll(s, "'", "''") }
