package engine

// Sites says who is at one site, see ordering.Order.
func Sites(e *Engine, groups [][]uint32) { e.order.Sites(groups) }

// Relayed is Step for what another member has passed on, see ordering.Order.
func Relayed(e *Engine, origin uint32, data []byte) error { return e.order.Relayed(origin, data) }
