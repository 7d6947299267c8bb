package transport

import (
	"fmt"
	"net"
	"sync/atomic"
	"testing"
)

// TestSecretRotation exchanges the secret of three members, one after the other, as the README says: the new one is put
// in front of the old one everywhere, then the old one is taken away everywhere. At every step all connections can be
// made anew. Who has only the old secret in the end gets none.
func TestSecretRotation(t *testing.T) {
	old, young := []byte("the old secret, sixteen"), []byte("the new secret, sixteen")
	both := [][]byte{young, old}
	var now [4]atomic.Pointer[[][]byte]
	var all [4]*member
	var listeners [4]net.Listener
	for k := 1; k <= 3; k++ {
		now[k].Store(&[][]byte{old})
		listeners[k] = listen(t, "127.0.0.1:0")
	}
	for k := uint32(1); k <= 3; k++ {
		peers := map[uint32]string{}
		for other := uint32(1); other <= 3; other++ {
			if other != k {
				peers[other] = listeners[other].Addr().String()
			}
		}
		all[k] = launch(t, k, listeners[k], peers, func(o *Options, _ *timing) {
			o.Credentials = func() Credentials { return Credentials{Secrets: *now[o.Self].Load()} }
		})
	}
	connections := uint64(0)
	renewed := func(step string) {
		t.Helper()
		connections++
		for k := uint32(1); k <= 3; k++ {
			for other := uint32(1); other <= 3; other++ {
				if k != other {
					eventually(t, fmt.Sprintf("%s: connection %d from %d to %d", step, connections, k, other),
						func() bool { s := all[k].Stats()[other]; return s.Connected && s.Connections >= connections })
					all[k].exchange(t, all[other])
				}
			}
		}
		for _, m := range all[1:] {
			m.cut()
		}
	}
	renewed("before")
	for k := 1; k <= 3; k++ {
		now[k].Store(&both)
		renewed(fmt.Sprintf("member %d has both", k))
		renewed(fmt.Sprintf("member %d still has both", k))
	}
	for k := 1; k <= 3; k++ {
		now[k].Store(&[][]byte{young})
		renewed(fmt.Sprintf("member %d has the new one alone", k))
	}
	all[3].Close()
	late := launch(t, 3, listen(t, all[3].addr), map[uint32]string{1: all[1].addr},
		func(o *Options, _ *timing) { o.Credentials = known(old) })
	late.says(t, "it refuses this member: wrong secret")
	all[1].says(t, "member 3: wrong secret")
}
