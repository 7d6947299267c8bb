package peers

import (
	"fmt"
	"strings"
)

// Halt says where a database is halted at a member, and why.
type Halt struct {
	Ordinal     uint64 `json:"ordinal"` // of the entry
	Transaction string `json:"transaction"`
	Table       string `json:"table"` // empty: none, or it is not known
	Row         string `json:"row"`   // its key
	Reason      string `json:"reason"`
}

// Text is what an operator is told.
func (h *Halt) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "entry %d", h.Ordinal)
	if h.Transaction != "" {
		fmt.Fprintf(&b, " (transaction %s)", h.Transaction)
	}
	if h.Table != "" {
		b.WriteString(", table " + h.Table)
	}
	if h.Row != "" {
		b.WriteString(", row " + h.Row)
	}
	return b.String() + ": " + h.Reason
}
