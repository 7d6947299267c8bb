package standing

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/tuttidb/tutti/internal/config"
)

// askedList is what a witness asks for, which cannot read it in a database.
const askedList = "members and databases"

// listMost is how long an answer may take.
const listMost = 5 * time.Second

// Listed is who the members are, and which databases there are, as one member knows it.
type Listed struct {
	Roster  json.RawMessage `json:"roster,omitempty"` // its owner's form
	Applied uint64          `json:"applied"`          // in the main database's order
	Orders  []Order         `json:"orders"`           // that somebody may need, but for the main database's
}

// Order is that of a database: who votes on it at first, and who only gets it; nil: all with whom the cluster began,
// and the rest of these.
type Order struct {
	Group    uint64   `json:"group"`
	Voters   []uint32 `json:"voters"`
	Learners []uint32 `json:"learners"`
}

// Find gives an order that is listed; nil if it is not.
func (l *Listed) Find(group uint64) *Order {
	for i := range l.Orders {
		if l.Orders[i].Group == group {
			return &l.Orders[i]
		}
	}
	return nil
}

// Over reports whether nobody needs the order of a database any more.
func (l *Listed) Over(group uint64) bool {
	began := group
	if group >= FirstGroup {
		began = 1
	}
	return group != MainGroup && began <= l.Applied && l.Find(group) == nil
}

// Lists reports whether a call asks for that, and gives what answers it.
func (s *Standing) Lists(asked string, list func(ctx context.Context) (Listed, error)) (func(context.Context, net.Conn),
	bool) {
	if asked != askedList {
		return nil, false
	}
	return func(ctx context.Context, conn net.Conn) {
		defer conn.Close()
		l, err := list(ctx)
		if err != nil {
			return // it asks again
		}
		l.Roster = rosterOf(s.config)
		text, err := json.Marshal(l)
		if err != nil {
			panic("standing: " + err.Error()) // there is nothing in it that cannot be written
		}
		_, _ = conn.Write(text) // if that fails, it asks again
	}, true
}

// Learn has a witness go by the list of members that it was told, if that is a newer one.
func (l *Listed) Learn(c *config.Config) { learn(c, l.Roster) }

// AskList asks one member.
func AskList(ctx context.Context, m config.Member,
	call func(ctx context.Context, member uint32, address, asked string) (net.Conn, error)) (*Listed, error) {
	ctx, cancel := context.WithTimeout(ctx, listMost)
	defer cancel()
	data, err := hear(ctx, func() (net.Conn, error) { return call(ctx, m.Member, m.Address, askedList) })
	if err == nil && len(data) == 0 {
		err = errors.New("it does not say")
	}
	l := &Listed{}
	if err == nil {
		err = json.Unmarshal(data, l)
	}
	if err != nil {
		return nil, fmt.Errorf("ask %s who the members are: %w", m.Name, err)
	}
	return l, nil
}
