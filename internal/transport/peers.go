package transport

import (
	"context"
	"maps"
)

// peer finds a member's; nil if this one does not talk to it.
func (t *Transport) peer(member uint32) *peer { return (*t.peers.Load())[member] }

// begin makes and runs that of a member at an address. The caller holds mu.
func (t *Transport) begin(member uint32, address string) *peer {
	p := &peer{t: t, id: member, address: address, queue: newQueue(t.o.QueueBytesMax), again: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(t.ctx)
	p.leave = cancel
	t.wg.Go(func() {
		defer cancel()
		p.run(ctx)
	})
	return p
}

// SetPeers has this member talk to these from now on, each at its host:port, and to nobody else: connections with
// others, and to other addresses, are ended, and what is queued for them is lost. It must not name this member.
func (t *Transport) SetPeers(addresses map[uint32]string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return
	}
	was := *t.peers.Load()
	is := maps.Clone(was)
	for member, p := range was { // order-free: each by itself
		if address, stays := addresses[member]; stays && address == p.address {
			continue
		}
		delete(is, member)
		p.end()
		if s := t.streams[member]; s != nil {
			s.conn.Close()
		}
	}
	for member, address := range addresses { // order-free: each by itself
		if is[member] == nil {
			is[member] = t.begin(member, address)
		}
	}
	t.peers.Store(&is)
}

// Known counts the members that refuse this one as one that they do not know, and those that it is connected with; not
// others that were removed as well, and may not have heard either that nobody needs them.
func (t *Transport) Known(isMember func(member uint32) bool) (refuse, connected int) {
	for m, p := range *t.peers.Load() { // order-free: counted
		switch {
		case !isMember(m):
		case p.connected.Load() || p.incoming.Load():
			connected++
		case p.unknown.Load():
			refuse++
		}
	}
	return refuse, connected
}

// end ends what is sent to a member.
func (p *peer) end() {
	p.leave()
	p.queue.close()
	p.mu.Lock()
	if p.conn != nil {
		p.conn.Close()
	}
	p.mu.Unlock()
}
