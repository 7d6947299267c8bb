package standing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/bootstrap"
)

// TestAskAgain: a member that has lost its log asks the others with one question until they readmit it, and what they
// say is in its new logs: terms, incarnations, and how many copies it has taken (B6).
func TestAskAgain(t *testing.T) {
	t.Parallel()
	var others [2]*seat
	for i := range others {
		others[i] = take(t, seatConfig(t, t.TempDir(), uint32(i+1)))
		others[i].begin(true)
		defer others[i].leave()
		others[i].notes, _ = others[i].notes.Heard(&bootstrap.Facts{Member: 3, Incarnation: uint64(7 + i), Copied: 2})
		others[i].notes, _ = others[i].notes.Heard(&bootstrap.Facts{Member: uint32(2 - i), Incarnation: 1,
			Level: bootstrap.Level})
	}
	c := seatConfig(t, t.TempDir(), 3)
	var rounds atomic.Int32
	var first atomic.Uint64
	readmit := func(member uint32, question uint64) map[uint64]uint64 {
		if !first.CompareAndSwap(0, question) && first.Load() != question || member != 3 {
			t.Errorf("member %d asks another question", member)
		}
		if rounds.Add(1) < 5 {
			return map[uint64]uint64{0: 0, 4: 0}
		}
		return map[uint64]uint64{0: 1 << 21, 4: 1 << 22}
	}
	call := func(_ context.Context, member uint32, _, asked string) (net.Conn, error) {
		if rounds.Load() == 0 && member == 2 {
			rounds.Add(1)
			return nil, errors.New("nobody listens")
		}
		answer, is := others[member-1].Answers(3, asked, readmit)
		if !is {
			t.Fatalf("%q is no question", asked)
		}
		a, b := net.Pipe()
		go answer(context.Background(), b)
		return a, nil
	}
	var said []string
	again, err := AskAgain(t.Context(), c, slog.New(slog.DiscardHandler), call,
		func(what string) { said = append(said, what) })
	if err != nil || again.Terms[0] != 1<<21 || again.Terms[4] != 1<<22 || again.Incarnation < 8+1<<16 ||
		again.Copied != 2 {
		t.Fatalf("%+v, %v", again, err)
	}
	if all := strings.Join(said, "\n"); !strings.Contains(all, "nobody listens") ||
		!strings.Contains(all, "2 of 2 databases have no leader") {
		t.Errorf("it says %s", all)
	}
	if _, is := others[0].Answers(3, "database", readmit); is {
		t.Error("another call is taken for a question")
	}

	// Whoever comes with a log of before is refused by those who have answered; who has lost it is not, with another.
	for life, want := range map[uint64]bool{9: false, 1 << 10: false, again.Incarnation + 1: true} { // order-free
		own := others[0].own
		own.Known = others[0].notes.Members
		err := bootstrap.Judge(&own, &bootstrap.Facts{Member: 3, Incarnation: life}, c.Name)
		if (err == nil) != want {
			t.Errorf("a log in incarnation %d: %v", life, err)
		}
	}

	if err := CreateLogAgain(c, nil, again); err != nil {
		t.Fatal(err)
	}
	s := take(t, c)
	s.begin(false)
	defer func() { s.leave() }()
	if hs, _, err := s.disk.InitialState(); err != nil || hs.GetTerm() != 1<<21 || hs.GetVote() != 0 {
		t.Errorf("the main log begins in term %d, %v", hs.GetTerm(), err)
	}
	if !s.Understand(bootstrap.Membership) || len(s.Lacking(bootstrap.Level)) > 0 { // whoever of them is away now
		t.Errorf("it knows of nobody what he understands: %+v", s.notes)
	}
	if s.own.Incarnation != again.Incarnation+1 {
		t.Errorf("its first incarnation is %d", s.own.Incarnation)
	}
	for group, term := range map[uint64]uint64{4: 1 << 22, 6: 0} { // order-free: each for itself
		var voters []uint32
		if group == 6 {
			voters = []uint32{1, 3}
		}
		if err := s.CreateLog(group, LogDir(c, group), voters, nil, nil); err != nil {
			t.Fatal(err)
		}
		disk, err := OpenLog(LogDir(c, group), c, nil)
		if err != nil {
			t.Fatal(err)
		}
		life, err := disk.NextIncarnation()
		hs, conf, herr := disk.InitialState()
		if err != nil || herr != nil || hs.GetTerm() != term || (life == 1) != (term == 0) {
			t.Errorf("the log of database %d begins in term %d, incarnation %d: %v", group, hs.GetTerm(), life, err)
		}
		if got := fmt.Sprint(conf.GetVoters(), conf.GetLearners()); got != map[uint64]string{4: "[1 2 3] []",
			6: "[1 3] [2]"}[group] {
			t.Errorf("the log of database %d begins with the voters and learners %s", group, got)
		}
		if err := disk.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // of several databases
		if n, err := s.Copies(); err != nil || n != 3 {
			t.Errorf("it counts %d copies, %v", n, err)
		}
	}
	s.leave()
	s = take(t, c)
	s.begin(false)
	if n, err := s.Copies(); err != nil || n != 4 {
		t.Errorf("in the next tenure it counts %d copies, %v", n, err)
	}
}

// TestAskAgainHarmsNobody: as long as too few answer, nobody notes anything: the log may only not be mounted, and what
// was decided with it be nowhere else.
func TestAskAgainHarmsNobody(t *testing.T) {
	t.Parallel()
	other := take(t, seatConfig(t, t.TempDir(), 1))
	other.begin(true)
	defer other.leave()
	other.notes, _ = other.notes.Heard(&bootstrap.Facts{Member: 3, Incarnation: 7})
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	answered := 0
	call := func(_ context.Context, member uint32, _, asked string) (net.Conn, error) {
		if member != 1 {
			return nil, errors.New("nobody listens")
		}
		answered++
		answer, _ := other.Answers(3, asked, func(uint32, uint64) map[uint64]uint64 {
			t.Error("it is readmitted")
			return nil
		})
		a, b := net.Pipe()
		go answer(context.Background(), b)
		return a, nil
	}
	if _, err := AskAgain(ctx, seatConfig(t, t.TempDir(), 3), slog.New(slog.DiscardHandler), call,
		func(string) {}); err == nil || answered < 2 {
		t.Errorf("%v after %d answers", err, answered)
	}
	own := other.own
	own.Known = other.notes.Members
	if err := bootstrap.Judge(&own, &bootstrap.Facts{Member: 3, Incarnation: 8}, other.config.Name); err != nil {
		t.Errorf("the log that is mounted again is refused: %v", err)
	}
}

// TestAskAgainEnds: it asks until ctx ends.
func TestAskAgainEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, errors.New("shutdown"))
	defer cancel()
	_, err := AskAgain(ctx, seatConfig(t, t.TempDir(), 3), slog.New(slog.DiscardHandler),
		func(context.Context, uint32, string, string) (net.Conn, error) { return nil, errors.New("no") },
		func(string) {})
	if err == nil || err.Error() != "shutdown" {
		t.Errorf("it ends with %v", err)
	}
}
