package proto

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/tuttidb/tutti/internal/wire"
)

// stage is a client's buffer behind Results and Late, and what plays on it.
type stage struct {
	client  bytes.Buffer
	out     *wire.Writer
	results Results
	late    Late
	kept    bool // what is passed on in a block is kept from the client
	more    bool // the backend has more to say
	idle    bool // no block is open
}

func newStage(max int) *stage {
	s := &stage{idle: true}
	s.out = wire.NewWriter(&s.client)
	s.results = NewResults(s.out, max, func([]byte) bool { return s.kept }, func() bool { return s.more })
	return s
}

// frame makes one of a line: row, notice, desc, parsed, complete, param or note, and a text.
func frame(t *testing.T, kind, text string) wire.Frame {
	t.Helper()
	types := map[string]byte{
		"row": wire.TypeDataRow, "notice": wire.TypeNoticeResponse, "desc": wire.TypeRowDescription,
		"parsed": wire.TypeParseComplete, "complete": wire.TypeCommandComplete, "param": wire.TypeParameterStatus,
		"note": wire.TypeNotificationResponse,
	}
	typ, ok := types[kind]
	if !ok {
		t.Fatalf("%q is no frame", kind)
	}
	raw := append([]byte{typ, 0, 0, 0, byte(4 + len(text))}, text...)
	return wire.Frame{Type: typ, Raw: raw}
}

// told is what has reached the client since the last time, as letters and texts.
func (s *stage) told() string {
	var out []string
	for b := s.client.Bytes(); len(b) > 0; {
		n := 1 + int(b[4])
		out = append(out, fmt.Sprintf("%c:%s", b[0], b[5:n]))
		b = b[n:]
	}
	s.client.Reset()
	return strings.Join(out, " ")
}

// do carries out a line and says what its client is told by it.
func (s *stage) do(t *testing.T, line string) string {
	t.Helper()
	verb, rest, _ := strings.Cut(line, " ")
	kind, text, _ := strings.Cut(rest, " ")
	var err error
	note := ""
	switch verb {
	case "begin":
		s.results.Begin(rest == "early")
	case "hold":
		s.results.Hold(rest == "query")
	case "emit":
		err = s.results.Emit(frame(t, kind, text))
	case "remark":
		err = s.results.Remark(frame(t, "notice", rest))
	case "ours":
		s.results.Notice(frame(t, "notice", rest).Raw)
	case "spill":
		s.results.Spill()
	case "release":
		s.results.Release()
	case "drop":
		s.results.Drop()
	case "uncommitted":
		s.results.Uncommitted()
	case "broken":
		s.results.Broken()
	case "late":
		s.late.Keep(s.out, frame(t, kind, text))
	case "ready":
		s.late.Tell(s.out, rest == "idle")
	case "keep":
		s.kept = rest == "on"
	case "more":
		s.more = rest == "on"
	case "flush":
		err = s.out.Flush()
	default:
		t.Fatalf("%q is nothing to do", line)
	}
	if err != nil {
		t.Fatal(err)
	}
	if s.results.Spilled() {
		note += " spilled"
	}
	if s.results.Changed() {
		note += " changed"
	}
	return s.told() + note
}

// TestTranscripts plays what a backend says of statements; what stands at a line is what has left for the client by
// then.
func TestTranscripts(t *testing.T) {
	datadriven.RunTest(t, "testdata/results.txt", func(t *testing.T, d *datadriven.TestData) string {
		s := newStage(64)
		var out strings.Builder
		for line := range strings.Lines(d.Input) {
			line = strings.TrimSpace(line)
			fmt.Fprintln(&out, strings.TrimRight(fmt.Sprintf("%-20s %s", line, strings.TrimSpace(s.do(t, line))), " "))
		}
		return out.String()
	})
}

// TestNothingTwice: whatever a statement announces and remarks, and however often it is run again, the client is told
// each of it once, and the results of the last run alone (P1).
func TestNothingTwice(t *testing.T) {
	for runs := 1; runs <= 4; runs++ {
		s := newStage(1 << 10)
		s.results.Begin(true)
		for i := range runs {
			s.results.Hold(false)
			for _, f := range []wire.Frame{frame(t, "parsed", "p"), frame(t, "desc", "d")} {
				if err := s.results.Emit(f); err != nil {
					t.Fatal(err)
				}
			}
			for _, n := range []string{"one", "two"} {
				if err := s.results.Remark(frame(t, "notice", n)); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.results.Emit(frame(t, "row", fmt.Sprint("r", i))); err != nil {
				t.Fatal(err)
			}
			if i < runs-1 {
				s.results.Drop()
			}
		}
		s.results.Release()
		if err := s.out.Flush(); err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf("1:p T:d N:one N:two D:r%d", runs-1)
		if got := s.told(); got != want {
			t.Errorf("%d runs: %q, want %q", runs, got, want)
		}
	}
}

// TestLateIsBounded: of more than LateBytesMax the older frames are told at once.
func TestLateIsBounded(t *testing.T) {
	s := newStage(64)
	n := 0
	for ; s.client.Len() == 0 && n < 10_000; n++ {
		s.late.Keep(s.out, frame(t, "note", strings.Repeat("x", 100)))
		if err := s.out.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	if most := LateBytesMax/105 + 1; n > most {
		t.Errorf("%d notifications are kept, %d at most", n, most)
	}
}

// TestHeldIsBounded: of more results and NOTICEs behind them than may be held, the older ones are told at once.
func TestHeldIsBounded(t *testing.T) {
	s := newStage(1 << 10)
	s.results.Begin(true)
	s.results.Hold(false)
	if err := s.results.Emit(frame(t, "row", "r")); err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		if err := s.results.Remark(frame(t, "notice", "n")); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.out.Flush(); err != nil {
		t.Fatal(err)
	}
	if s.client.Len() < 5000 || !s.results.Spilled() {
		t.Errorf("of 1000 NOTICEs the client was told %d bytes", s.client.Len())
	}
}
