package membership

import (
	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/quorum"
	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
)

// Table is the list of members as a main database has it, without the database: for who only models one. It does not
// change.
type Table struct{ rows []row }

// Begun is the table of a cluster of which nothing was changed yet.
func Begun(members []session.FirstMember) *Table { return &Table{rows: beginning(members)} }

// Next is the table behind a change that a superuser has ordered, or why it is refused (MB4). There can be as many
// members as step says.
func (t *Table) Next(m semantics.Membership, ordinal uint64, step int) (*Table, *wire.SQLError) {
	c := change{Membership: m, ordinal: ordinal, step: step, super: true}
	rows, refused := c.next(t.rows)
	if refused != nil {
		return nil, refused
	}
	return &Table{rows: rows}, nil
}

// Roster is what the table says.
func (t *Table) Roster() *config.Roster { return roster(t.rows) }

// ListedOf is a list of members for the leaders of orders; everybody are those that are members, witnesses included.
func ListedOf(r *config.Roster, everybody []config.Member) (list engine.List) {
	for _, m := range everybody {
		list.Members = append(list.Members, engine.Listed{Member: m.Member, Role: quorum.Role{Rank: m.Rank,
			Learner: m.Role == config.Learner, Witness: m.Role == config.Witness}})
	}
	for _, m := range r.Gone {
		list.Gone = append(list.Gone, m.Member)
	}
	return list
}
