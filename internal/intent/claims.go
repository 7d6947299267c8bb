package intent

import "slices"

// Use is what a transaction does to a table.
type Use uint8

const (
	// Lock: it asks for locks on rows of the table, or on all of it.
	Lock Use = iota
	// Write: it writes to rows that it sees.
	Write
	// Add: it adds to rows when it commits, or changes rows that it has not seen. It was handed to the order, and is
	// not committed yet.
	Add

	uses
)

// Claim is what one transaction does to which tables. The zero value is ready.
type Claim struct{ tables [uses][]string }

// Has reports whether there is a table to which the transaction does this.
func (x *Claim) Has(u Use) bool { return len(x.tables[u]) > 0 }

// Empty reports whether nothing is noted of the transaction.
func (x *Claim) Empty() bool { return !x.Has(Lock) && !x.Has(Write) && !x.Has(Add) }

// Does reports whether it is noted that the transaction does this to a table.
func (x *Claim) Does(u Use, table string) bool { return slices.Contains(x.tables[u], table) }

// Claims are those of the transactions of one member. Tables go by their names without schemas; the empty name stands
// for all of them. The zero value is ready. Not safe for concurrent use.
type Claims struct {
	count [uses]map[string]int // transactions, by table
}

// Note notes what a transaction does to a table.
func (c *Claims) Note(x *Claim, u Use, table string) {
	if x.Does(u, table) {
		return
	}
	x.tables[u] = append(x.tables[u], table)
	if c.count[u] == nil {
		c.count[u] = map[string]int{}
	}
	c.count[u][table]++
}

// End forgets what a transaction has done. It reports whether who waits for writers may look again.
func (c *Claims) End(x *Claim) (fewer bool) {
	fewer = x.Has(Write)
	for u := range x.tables {
		for _, table := range x.tables[u] {
			if c.count[u][table]--; c.count[u][table] == 0 {
				delete(c.count[u], table)
			}
		}
		x.tables[u] = x.tables[u][:0]
	}
	return fewer
}

// On reports whether a transaction does this to a table, or to any if the name is empty.
func (c *Claims) On(u Use, table string) bool {
	m := c.count[u]
	return len(m) > 0 && (table == "" || m[""] > 0 || m[table] > 0)
}

// Quiet reports whether no transaction locks or writes anything that it sees.
func (c *Claims) Quiet() bool { return len(c.count[Lock])+len(c.count[Write]) == 0 }

// Answer says what becomes of a blind transaction.
type Answer uint8

const (
	// Goes: it is noted as one that adds.
	Goes Answer = iota
	// Waits: for who writes to its tables; End tells when there are fewer.
	Waits
	// Refused: it is run as what it is otherwise.
	Refused
)

func (a Answer) String() string { return [...]string{"goes", "waits", "refused"}[a] }

// Blind answers a transaction that would change rows of tables without having seen them (C2). inVain reports whether to
// wait for the writers of the i-th table was in vain lately. One that must go does not look at them.
func (c *Claims) Blind(x *Claim, tables []string, must bool, inVain func(i int) bool) Answer {
	answer := Goes
	for i, table := range tables {
		switch {
		case c.On(Lock, table):
			return Refused
		case must || !c.On(Write, table):
		case inVain(i):
			answer = Refused
		case answer == Goes:
			answer = Waits
		}
	}
	if answer == Goes {
		for _, table := range tables {
			c.Note(x, Add, table)
		}
	}
	return answer
}
