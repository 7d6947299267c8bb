package node

import (
	"context"
	"fmt"
	"strings"
)

// keepChannels stores a member's announcement. It need not travel with the progress row: carrying it
// out again, up to where the order has been carried out, gives the same.
func (a *applier) keepChannels(ctx context.Context, member uint32, add, remove []string) error {
	var sql strings.Builder
	for _, x := range add {
		fmt.Fprintf(&sql, "INSERT INTO tutti.listening VALUES (%d, '%s') ON CONFLICT DO NOTHING;", member, literal(x))
	}
	for _, x := range remove {
		fmt.Fprintf(&sql, "DELETE FROM tutti.listening WHERE member = %d AND channel = '%s';", member, literal(x))
	}
	if _, err := a.conn.Exec(ctx, sql.String()).ReadAll(); err != nil {
		return fmt.Errorf("node: store who listens: %w", err)
	}
	return nil
}
