package transport

import (
	"testing"
	"time"
)

// TestSetPeers: a member is talked to once it is named, at the address that is named last, and not any more when it is
// not; who is not named is refused.
func TestSetPeers(t *testing.T) {
	la, lb, lc := listen(t, "127.0.0.1:0"), listen(t, "127.0.0.1:0"), listen(t, "127.0.0.1:0")
	at := map[uint32]string{1: la.Addr().String(), 2: lb.Addr().String(), 3: lc.Addr().String()}
	a := launch(t, 1, la, nil, nil)
	b := launch(t, 2, lb, map[uint32]string{1: at[1]}, nil)
	if a.Send(2, []byte("to nobody")) {
		t.Error("what is sent to a member that was not named is taken")
	}
	reaches := func(from *member, to uint32, at *member, text, want string) {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
			from.Send(to, []byte(text))
			select {
			case got := <-at.got:
				if got == want {
					return
				}
			default:
			}
			if time.Now().After(end) {
				t.Fatalf("%s never came", want)
			}
		}
	}
	a.SetPeers(map[uint32]string{2: at[2]})
	reaches(a, 2, b, "hello", "1:hello")
	reaches(b, 1, a, "hello too", "2:hello too")

	// Another one runs under its number, elsewhere.
	c := launch(t, 2, lc, map[uint32]string{1: at[1]}, nil)
	a.SetPeers(map[uint32]string{2: at[3]})
	reaches(a, 2, c, "moved", "1:moved")

	a.SetPeers(nil)
	for end := time.Now().Add(20 * time.Second); a.logs.count("unknown member") == 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("who is not named any more is not refused")
		}
	}
	for end := time.Now().Add(20 * time.Second); !unknown(c, all); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("who is refused does not know that")
		}
	}
	if unknown(a, all) {
		t.Error("a member that talks to nobody takes itself for refused")
	}
	if a.Send(2, []byte("gone")) || len(a.Stats()) > 0 {
		t.Errorf("who is not named any more is sent to: %+v", a.Stats())
	}
}

func all(uint32) bool { return true }

// unknown reports whether members refuse one, and it is connected with none.
func unknown(m *member, isMember func(uint32) bool) bool {
	refuse, connected := m.Known(isMember)
	return refuse > 0 && connected == 0
}

// TestUnknownTogether: two that were removed are connected with each other, and know that the others refuse them.
func TestUnknownTogether(t *testing.T) {
	t.Parallel()
	la, lb, lc := listen(t, "127.0.0.1:0"), listen(t, "127.0.0.1:0"), listen(t, "127.0.0.1:0")
	at := map[uint32]string{1: la.Addr().String(), 2: lb.Addr().String(), 3: lc.Addr().String()}
	launch(t, 1, la, nil, nil)
	b := launch(t, 2, lb, map[uint32]string{1: at[1], 3: at[3]}, nil)
	launch(t, 3, lc, map[uint32]string{1: at[1], 2: at[2]}, nil)
	isMember := func(member uint32) bool { return member == 1 }
	linked := func() bool { return b.peer(3).connected.Load() && b.peer(3).incoming.Load() }
	for end := time.Now().Add(20 * time.Second); !linked() || !unknown(b, isMember); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("one that was removed with another one does not know that it is refused: %t", linked())
		}
	}
	if unknown(b, all) {
		t.Error("one that talks to a member takes itself for refused")
	}
}
