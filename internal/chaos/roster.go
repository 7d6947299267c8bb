package chaos

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/tuttidb/tutti/internal/config"
)

// stage is what a node is to the cluster. It goes from one to the next.
type stage uint8

const (
	stageJoins   stage = iota // it was added, and does not serve yet
	stageMember               // it serves
	stageRemoved              // the cluster has said so; its process may not have ended yet
)

// roster are the nodes, and what each is to the cluster.
type roster struct {
	mu    sync.Mutex // nodes, and their stages
	nodes []*node    // all that there ever were, from number 1
}

// known are the nodes that there are and ever were.
func (r *roster) known() []*node {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.nodes)
}

// inStages are the nodes in one of these stages.
func (r *roster) inStages(s ...stage) (list []*node) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range r.nodes {
		if slices.Contains(s, n.stage) {
			list = append(list, n)
		}
	}
	return list
}

// members are the nodes that serve, or would if no fault was made at them.
func (r *roster) members() []*node { return r.inStages(stageMember) }

// present are the members and who joins.
func (r *roster) present() []*node { return r.inStages(stageJoins, stageMember) }

func (r *roster) node(k int) *node {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.nodes[k-1]
}

// add takes in a node that has the next number.
func (r *roster) add(n *node) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.nodes = append(r.nodes, n)
}

func (r *roster) enter(n *node, s stage) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n.stage = s
}

// besides is the fault that is made beside a join or a remove.
func (r *roster) besides(w window) window {
	f := w.fault
	f.Kind, f.Beside = f.Beside, ""
	return window{fault: f, hit: []int{w.beside}, members: numbersOf(r.present())}
}

// freePlace is the first place where no node is.
func (r *roster) freePlace() int {
	taken := r.present()
	for place := 1; ; place++ {
		if !slices.ContainsFunc(taken, func(n *node) bool { return n.place == place }) {
			return place
		}
	}
}

// lastRemoved is the node that was removed last; nil if none was.
func (r *roster) lastRemoved() (last *node) {
	for _, n := range r.inStages(stageRemoved) {
		if last == nil || n.removed.After(last.removed) {
			last = n
		}
	}
	return last
}

// named reports whether there is a member of a name.
func (r *roster) named(name string) bool {
	return slices.ContainsFunc(r.present(), func(n *node) bool { return n.member == name })
}

// address is where clients find a node.
func (c *cluster) address(k int) string { return c.net.clientAddress(c.node(k).place) }

func numbersOf(nodes []*node) (list []int) {
	for _, n := range nodes {
		list = append(list, n.k)
	}
	return list
}

// keepFiles has the configuration files of all members name who is there now, as an operator is told to do. Nobody
// copies from the first node any more, which may be gone.
func (c *cluster) keepFiles() error {
	var list []config.Member
	present := c.present()
	for _, n := range present {
		list = append(list, n.config.Self())
	}
	for _, n := range present {
		n.config.Members, n.config.Postgres.CloneFrom = list, ""
		if err := n.write(); err != nil {
			return err
		}
	}
	return nil
}

// view is how the cluster sees itself.
type view struct {
	members []int
	leader  int   // zero if no node knows one
	voters  []int // as the leader says, or another one that knows it; nil if nobody does
	settled bool  // all say the same, and nobody waits for being a voter
}

// votersOf is how many of so many members vote once all have been there for long enough.
func votersOf(members int) int {
	if members == 2 {
		return 2
	}
	return members - 1 + members%2
}

// view asks all members.
func (c *cluster) view(ctx context.Context) view {
	members := c.members()
	answers := make([]view, len(members))
	done := make(chan struct{})
	for i, n := range members {
		go func() {
			rows, err := ask(ctx, c.url(n.k), c.net.dial, "SHOW tutti.status", time.Second)
			if err == nil {
				answers[i] = seen(members, rows)
			}
			done <- struct{}{}
		}()
	}
	for range members {
		<-done
	}
	return agreed(numbersOf(members), answers)
}

// seen is what an answer to SHOW tutti.status says.
func seen(members []*node, rows [][]string) (v view) {
	for _, row := range rows {
		i := slices.IndexFunc(members, func(n *node) bool { return n.member == row[0] })
		if i < 0 {
			v.members = append(v.members, 0) // who is being removed
			continue
		}
		k := members[i].k
		v.members = append(v.members, k)
		if row[2] == "leader" {
			v.leader = k
		}
		if row[2] != "learner" {
			v.voters = append(v.voters, k)
		}
	}
	return v
}

// agreed is what the members' answers say together: most say who leads, and that one who votes.
func agreed(members []int, answers []view) view {
	v := view{members: members, settled: true}
	votes := map[int]int{}
	for _, a := range answers {
		if votes[a.leader]++; a.leader > 0 && (v.leader == 0 || votes[a.leader] > votes[v.leader]) {
			v.leader = a.leader
		}
	}
	for i, a := range answers {
		if a.leader == v.leader && (v.voters == nil || members[i] == v.leader) {
			v.voters = a.voters
		}
	}
	for _, a := range answers {
		v.settled = v.settled && v.leader > 0 && a.leader == v.leader && slices.Equal(a.members, members) &&
			slices.Equal(a.voters, v.voters) && len(a.voters) == votersOf(len(members))
	}
	return v
}

// outvoted reports whether those who vote beside these are no majority. If nobody knows who votes, members count.
func (v view) outvoted(lost []int) bool {
	voters := v.voters
	if len(voters) == 0 {
		voters = v.members
	}
	left := 0
	for _, k := range voters {
		if !slices.Contains(lost, k) {
			left++
		}
	}
	return 2*left <= len(voters)
}
