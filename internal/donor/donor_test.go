package donor

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tuttidb/tutti/internal/config"
	"github.com/tuttidb/tutti/internal/database/embedded"
	"github.com/tuttidb/tutti/internal/database/instance"
)

func member(n uint32, name string) config.Member {
	return config.Member{Member: n, Name: name, Address: name + ":1"}
}

var abc = []config.Member{member(1, "a"), member(2, "b"), member(3, "c")}

// TestDonors: all others are asked, who leads last (DO2).
func TestDonors(t *testing.T) {
	for _, c := range []struct {
		self, leader uint32
		want         string
	}{{3, 0, "ab"}, {3, 1, "ba"}, {3, 2, "ab"}, {1, 2, "cb"}, {1, 1, "bc"}} {
		var got string
		for _, m := range Donors(abc, c.self, c.leader) {
			got += m.Name
		}
		if got != c.want {
			t.Errorf("member %d asks %s while %d leads, want %s", c.self, got, c.leader, c.want)
		}
	}
	if Donors(abc, 3, 1); abc[0].Name != "a" {
		t.Error("the configuration's list is changed")
	}
}

// fake is a Copy that follows a script: an error for each time it is asked, then nil.
type fake struct {
	mu     sync.Mutex
	script []error
	asked  []string
	said   []string
	times  []time.Time
}

func (f *fake) fill(ctx context.Context, donor *pgconn.Config, progress func(int64)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked, f.times = append(f.asked, donor.Host), append(f.times, time.Now())
	for n := int64(0); n <= 3*progressBytes; n += progressBytes / 4 {
		progress(n + 1)
	}
	if len(f.script) == 0 {
		return nil
	}
	err := f.script[0]
	f.script = f.script[1:]
	return err
}

func (f *fake) borrower() *Borrower {
	return &Borrower{Log: slog.New(slog.DiscardHandler), Waits: func(what string) { f.said = append(f.said, what) },
		Call: func(context.Context, uint32, string, string) (net.Conn, error) {
			return nil, errors.New("not called here")
		}}
}

// TestFromAsksUntilSomebodyLends: in turns, with longer and longer rests, and it says why and how far it is (DO4).
func TestFromAsksUntilSomebodyLends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		no := errors.New("not synced")
		f := &fake{script: []error{no, no, no, no, no, no, no, no, no, no, no, no, no}}
		if err := f.borrower().From(t.Context(), abc[:2], f.fill); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(f.asked, ""); got != "abababababababab"[:14] {
			t.Errorf("asked %s", got)
		}
		var rests []time.Duration
		for i := 2; i < len(f.times); i += 2 {
			rests = append(rests, f.times[i].Sub(f.times[i-1]))
		}
		want := []time.Duration{askFirst, 2 * askFirst, 4 * askFirst, 8 * askFirst, 16 * askFirst, 32 * askFirst}
		if !reflect.DeepEqual(rests, want) {
			t.Errorf("it rests %v, want %v", rests, want)
		}
		all := strings.Join(f.said, "\n")
		for _, want := range []string{"is needed, and none can be had yet: a: not synced; b: not synced",
			"is copied from a: 0 MB have come", "is copied from b: 64 MB have come", "is copied from b: 192 MB"} {
			if !strings.Contains(all, want) {
				t.Errorf("nothing is said of %q:\n%s", want, all)
			}
		}
		if n := strings.Count(all, "MB have come"); n != 4*len(f.asked) {
			t.Errorf("progress is told %d times for %d copies", n, len(f.asked))
		}
	})
}

// TestRestsAreBounded: who is refused asks again soon; who has copied half of it in vain rests for longer.
func TestRestsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			come int64
			most time.Duration
		}{{0, askMost}, {1, brokenMost}} {
			var last, rest time.Duration
			began, tries := time.Now(), 0
			err := (&fake{}).borrower().From(t.Context(), abc[:1],
				func(_ context.Context, _ *pgconn.Config, progress func(int64)) error {
					if c.come > 0 {
						progress(c.come)
					}
					rest, last = time.Since(began)-last, time.Since(began)
					if tries++; tries == 15 {
						return nil
					}
					return io.EOF
				})
			if err != nil || rest != c.most {
				t.Errorf("where %d bytes came it rests %s at last, want %s: %v", c.come, rest, c.most, err)
			}
		}
	})
}

// TestFromStandsStill: a copy of which nothing comes any more is broken off, and the next donor asked at once; who
// stood still is asked last.
func TestFromStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := (&fake{}).borrower()
		var others []net.Conn
		b.Call = func(context.Context, uint32, string, string) (net.Conn, error) {
			conn, other := net.Pipe()
			others = append(others, other)
			return conn, nil
		}
		var said, asked string
		b.Waits = func(what string) { said = what }
		began, tries := time.Now(), 0
		var times []time.Duration
		if err := b.From(t.Context(), abc, func(ctx context.Context, donor *pgconn.Config, progress func(int64)) error {
			asked, times = asked+donor.Host, append(times, time.Since(began))
			conn, err := donor.DialFunc(ctx, "", "")
			if err != nil {
				return err
			}
			switch tries++; {
			case donor.Host == "c":
				return errors.New("not synced")
			case tries == 5:
				return conn.Close()
			case donor.Host == "b":
				progress(7)
				time.Sleep(2 * stillMost) // its own disk is slow
			}
			_, err = conn.Read(make([]byte, 1))
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if asked != "abcca" || times[1] != beginMost || times[2] != beginMost+3*stillMost ||
			!strings.Contains(said, "b: nothing came from it any more after 7 bytes") {
			t.Errorf("it asks %s, at %v, and says %s", asked, times, said)
		}
		for _, c := range others[:2] {
			if _, err := c.Read(make([]byte, 1)); err != io.EOF {
				t.Errorf("a connection is left: %v", err)
			}
		}
	})
}

// TestFromGivesUp: when ctx ends, at once where trying again cannot help, and nobody else is asked then.
func TestFromGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, err := range []error{instance.ErrInitialized, instance.ErrRunning,
			embedded.Setupf("the donor is PostgreSQL 17")} {
			f := &fake{script: []error{err}}
			if got := f.borrower().From(t.Context(), abc, f.fill); !errors.Is(got, err) || len(f.asked) != 1 {
				t.Errorf("%v: %v after asking %v", err, got, f.asked)
			}
		}
		ctx, cancel := context.WithTimeoutCause(t.Context(), 3*askFirst/2, errors.New("shutdown"))
		defer cancel()
		f := &fake{script: []error{io.EOF, io.EOF, io.EOF}}
		if err := f.borrower().From(ctx, abc[:1], f.fill); err == nil || err.Error() != "shutdown" {
			t.Errorf("it ends with %v", err)
		}
		if len(f.asked) != 2 {
			t.Errorf("asked %v", f.asked)
		}
	})
}

// TestFromCallsTheDonor: the copy's connections are calls of the member that is asked.
func TestFromCallsTheDonor(t *testing.T) {
	var called []string
	b := (&fake{}).borrower()
	b.Asked = First
	b.Call = func(_ context.Context, m uint32, address, asked string) (net.Conn, error) {
		called = append(called, address, asked)
		return nil, errors.New("refused")
	}
	ctx, cancel := context.WithCancel(t.Context())
	b.Waits = func(what string) {
		if !strings.HasSuffix(what, "yet: b: refused") {
			t.Errorf("it says %q", what)
		}
		cancel()
	}
	err := b.From(ctx, abc[1:2], func(ctx context.Context, donor *pgconn.Config, _ func(int64)) error {
		_, err := pgconn.ConnectConfig(ctx, donor)
		if err == nil || !strings.Contains(err.Error(), "refused") {
			t.Errorf("the connection fails with %v", err)
		}
		return err
	})
	if err == nil || strings.Join(called, " ") != "b:1 first database" {
		t.Errorf("%v, and %v was called", err, called)
	}
}

// TestLender: a call is answered while the database is fit for what is asked, and under the caller's name (DO1).
func TestLender(t *testing.T) {
	fit := map[bool]error{}
	var lent []string
	l := &Lender{Log: slog.New(slog.DiscardHandler), Name: func(m uint32) string { return abc[m-1].Name },
		Fit: func(first bool) error { return fit[first] },
		Lend: func(_ context.Context, _ net.Conn, name string) error {
			lent = append(lent, name)
			return io.EOF
		}}
	for _, asked := range []string{Current, First} {
		answer, err := l.Called(3, asked)
		if err != nil {
			t.Fatal(err)
		}
		answer(t.Context(), nil)
	}
	if strings.Join(lent, ", ") != "tutti clone of c, tutti clone of c" {
		t.Errorf("lent: %v", lent)
	}
	fit[false] = errors.New("catching up")
	if answer, err := l.Called(3, Current); answer != nil || !errors.Is(err, fit[false]) {
		t.Errorf("it lends what it should not: %v", err)
	}
	if _, err := l.Called(3, First); err != nil {
		t.Errorf("it does not lend what nobody has begun with: %v", err)
	}
	if answer, err := l.Called(3, "the moon"); answer != nil || err == nil {
		t.Errorf("it lends what it does not know: %v", err)
	}
}
