package session_test

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/wire"
)

// A script is what a client sends, one message per line, the same to a plain PostgreSQL and
// to a session. Q and S flush and read up to ReadyForQuery; Q& and S& do not, so that
// messages pipeline. Fields are separated by bars; \n, \t, \0 and \| are escapes.
//
//	Q sql                 Query                    P name|sql|oid,oid      Parse
//	B portal|name|value…  Bind, text, \N is NULL   D S name, D P portal    Describe
//	E portal|rows         Execute                  C S name, C P portal    Close
//	H Flush   S Sync      d data CopyData          c CopyDone  f why       CopyFail
//	F oid|value…          FunctionCall             X Terminate
//	wait T                flush and read up to a message of type T
//	raw hex               bytes as they are
//	hang                  close the connection
//	big n                 CopyData of n bytes "1\t…\n"
type client struct {
	conn  net.Conn
	out   *wire.Writer
	in    *wire.Reader
	trace []string
	cut   bool // after its last words the server closed the connection
}

const waitMax = 60 * time.Second // generous: nothing is measured by it

func newClient(conn net.Conn) *client {
	return &client{conn: conn, out: wire.NewWriter(conn), in: wire.NewReader(conn, wire.BackendLimits())}
}

// until reads frames up to one of the given type, or the end.
func (c *client) until(typ byte) {
	if c.cut {
		return
	}
	_ = c.conn.SetDeadline(time.Now().Add(waitMax))
	// The other side may close while we send: its last words are what counts.
	_ = c.out.Flush()
	for {
		f, err := c.in.Next()
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			c.trace = append(c.trace, fmt.Sprintf("no %c within %s", typ, waitMax))
			c.cut = true
			return
		case err != nil:
			if !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) && !strings.Contains(err.Error(), "reset") {
				c.trace = append(c.trace, err.Error())
			}
			c.trace = append(c.trace, "connection closed")
			c.cut = true
			return
		}
		c.trace = append(c.trace, show(f))
		if f.Type == typ {
			return
		}
	}
}

// run plays a script and returns the trace of answers.
func (c *client) run(t testing.TB, script string) string {
	for _, line := range strings.Split(script, "\n") {
		if line == "hang" {
			_ = c.conn.Close()
			return strings.Join(c.trace, "\n")
		}
		c.step(t, line)
	}
	c.out.Append(wire.AppendTerminate(nil))
	c.until(0)
	return strings.Join(c.trace, "\n")
}

func (c *client) step(t testing.TB, line string) {
	if line = strings.TrimLeft(line, " "); line == "" || strings.HasPrefix(line, "#") {
		return
	}
	word, rest, _ := strings.Cut(line, " ")
	switch word {
	case "wait":
		c.until(rest[0])
	case "pause":
		if err := c.out.Flush(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(number(t, rest)) * time.Millisecond)
	case "Q", "S", "F":
		c.out.Append(message(t, word, rest))
		c.until(wire.TypeReadyForQuery)
	default:
		c.out.Append(message(t, strings.TrimSuffix(word, "&"), rest))
	}
}

var unescape = strings.NewReplacer(`\n`, "\n", `\t`, "\t", `\0`, "\x00", `\|`, "\x01", `\xe9`, "\xe9")

// fields splits at bars.
func fields(s string) []string {
	parts := strings.Split(unescape.Replace(s), "|")
	for i := range parts {
		parts[i] = strings.ReplaceAll(parts[i], "\x01", "|")
	}
	return parts
}

func values(parts []string) [][]byte {
	var out [][]byte
	for _, p := range parts {
		if p == `\N` {
			out = append(out, nil)
			continue
		}
		out = append(out, []byte(p))
	}
	return out
}

func number(t testing.TB, s string) uint32 {
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	return uint32(n)
}

func message(t testing.TB, word, rest string) []byte {
	f := fields(rest)
	switch word {
	case "Q":
		return wire.AppendQuery(nil, strings.ReplaceAll(unescape.Replace(rest), "\x01", "|"))
	case "P":
		var oids []uint32
		if len(f) > 2 {
			for _, o := range strings.Split(f[2], ",") {
				oids = append(oids, number(t, o))
			}
		}
		return wire.AppendParse(nil, f[0], f[1], oids)
	case "B":
		return wire.AppendBind(nil, f[0], f[1], nil, values(f[2:]), nil)
	case "D", "C":
		kind, name, _ := strings.Cut(rest, " ")
		if word == "D" {
			return wire.AppendDescribe(nil, kind[0], name)
		}
		return wire.AppendClose(nil, kind[0], name)
	case "E":
		rows := uint32(0)
		if len(f) > 1 {
			rows = number(t, f[1])
		}
		return wire.AppendExecute(nil, f[0], rows)
	case "H":
		return wire.AppendFlush(nil)
	case "S":
		return wire.AppendSync(nil)
	case "d":
		return wire.AppendCopyData(nil, []byte(unescape.Replace(rest)))
	case "big":
		return wire.AppendCopyData(nil, []byte("1\t"+strings.Repeat("x", int(number(t, rest)))+"\n"))
	case "c":
		return wire.AppendCopyDone(nil)
	case "f":
		return wire.AppendCopyFail(nil, rest)
	case "F":
		return functionCall(number(t, f[0]), values(f[1:]))
	case "X":
		return wire.AppendTerminate(nil)
	case "raw":
		b, err := hex.DecodeString(rest)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	t.Fatalf("unknown message %q", word)
	return nil
}

// functionCall is a FunctionCall message with text arguments and a text result.
func functionCall(oid uint32, args [][]byte) []byte {
	body := []byte{byte(oid >> 24), byte(oid >> 16), byte(oid >> 8), byte(oid), 0, 0, byte(len(args) >> 8),
		byte(len(args))}
	for _, a := range args {
		body = append(body, 0, 0, byte(len(a)>>8), byte(len(a)))
		body = append(body, a...)
	}
	return wire.AppendFrame(nil, wire.TypeFunctionCall, append(body, 0, 0))
}

// show words a backend's frame, leaving out what differs between two databases.
func show(f wire.Frame) string {
	switch f.Type {
	case wire.TypeDataRow:
		row, err := wire.DecodeDataRow(nil, f.Body())
		return "DataRow " + showValues(row) + showError(err)
	case wire.TypeRowDescription:
		columns, err := wire.DecodeRowDescription(f.Body())
		s := "RowDescription"
		for _, c := range columns {
			s += fmt.Sprintf(" %s:%d", c.Name, c.TypeOID)
		}
		return s + showError(err)
	case wire.TypeParameterDescription:
		oids, err := wire.DecodeParameterDescription(f.Body())
		return fmt.Sprintf("ParameterDescription %v", oids) + showError(err)
	case wire.TypeCommandComplete:
		tag, err := wire.DecodeCommandComplete(f.Body())
		return "CommandComplete " + tag + showError(err)
	case wire.TypeReadyForQuery:
		return "ReadyForQuery " + string(f.Body())
	case wire.TypeParameterStatus:
		name, value, err := wire.DecodeParameterStatus(f.Body())
		return "ParameterStatus " + name + "=" + value + showError(err)
	case wire.TypeErrorResponse, wire.TypeNoticeResponse:
		return showFields(f)
	case wire.TypeCopyData:
		return "CopyData " + strconv.Quote(string(f.Body()))
	case wire.TypeNotificationResponse:
		parts := strings.Split(string(f.Body()[4:]), "\x00")
		return "NotificationResponse " + parts[0] + " " + parts[1]
	case wire.TypeFunctionCallResponse:
		return "FunctionCallResponse " + strconv.Quote(string(f.Body()[4:]))
	}
	name, ok := map[byte]string{
		wire.TypeParseComplete: "ParseComplete", wire.TypeBindComplete: "BindComplete",
		wire.TypeCloseComplete: "CloseComplete",
		wire.TypeNoData:        "NoData", wire.TypePortalSuspended: "PortalSuspended",
		wire.TypeEmptyQueryResponse: "EmptyQueryResponse",
		wire.TypeCopyInResponse:     "CopyInResponse", wire.TypeCopyOutResponse: "CopyOutResponse",
		wire.TypeCopyDone: "CopyDone",
	}[f.Type]
	if !ok {
		name = fmt.Sprintf("message %q", f.Type)
	}
	return name
}

func showError(err error) string {
	if err != nil {
		return " malformed: " + err.Error()
	}
	return ""
}

func showValues(row [][]byte) string {
	var parts []string
	for _, v := range row {
		if v == nil {
			parts = append(parts, `\N`)
			continue
		}
		parts = append(parts, string(v))
	}
	s := strings.Join(parts, "|")
	if len(s) > 200 {
		s = fmt.Sprintf("%s… (%d bytes)", s[:40], len(s))
	}
	return s
}

func showFields(f wire.Frame) string {
	e, err := wire.DecodeErrorFields(f.Body())
	s := fmt.Sprintf("%s %s %s", e.Severity, e.Code, e.Message)
	if e.Position != 0 {
		s += fmt.Sprintf(" at=%d", e.Position)
	}
	for _, x := range [][2]string{{"detail", e.Detail}, {"hint", e.Hint}, {"where", e.Where}, {"table", e.Table},
		{"constraint", e.Constraint}} {
		if x[1] != "" {
			s += " " + x[0] + "=" + strconv.Quote(x[1])
		}
	}
	return s + showError(err)
}
