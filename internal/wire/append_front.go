package wire

// Messages a client sends.

// Param is one start-up parameter. Order matters: the last of a name wins.
type Param struct{ Name, Value string }

const (
	codeSSLRequest    = 80877103
	codeGSSENCRequest = 80877104
	codeCancelRequest = 80877102
)

// AppendStartup appends a StartupMessage, which has no type byte.
func AppendStartup(dst []byte, major, minor uint16, params []Param) []byte {
	start := len(dst)
	dst = u32(u32(dst, 0), uint32(major)<<16|uint32(minor))
	for _, p := range params {
		if p.Name == "" {
			panic("wire: start-up parameter without a name")
		}
		dst = str(str(dst, p.Name), p.Value)
	}
	return finish(append(dst, 0), start)
}

// AppendSSLRequest appends an SSLRequest, which has no type byte.
func AppendSSLRequest(dst []byte) []byte { return u32(u32(dst, 8), codeSSLRequest) }

// AppendGSSENCRequest appends a GSSENCRequest, which has no type byte.
func AppendGSSENCRequest(dst []byte) []byte { return u32(u32(dst, 8), codeGSSENCRequest) }

// AppendCancelRequest appends a CancelRequest, which has no type byte.
func AppendCancelRequest(dst []byte, pid uint32, secret []byte) []byte {
	start := len(dst)
	dst = u32(u32(u32(dst, 0), codeCancelRequest), pid)
	return finish(append(dst, secret...), start)
}

// AppendQuery appends a simple Query.
func AppendQuery(dst []byte, sql string) []byte {
	dst, start := begin(dst, TypeQuery)
	return finish(str(dst, sql), start)
}

// AppendParse appends a Parse.
func AppendParse(dst []byte, name, sql string, paramOIDs []uint32) []byte {
	dst, start := begin(dst, TypeParse)
	dst = count(str(str(dst, name), sql), len(paramOIDs))
	for _, oid := range paramOIDs {
		dst = u32(dst, oid)
	}
	return finish(dst, start)
}

// AppendBind appends a Bind. A nil parameter is NULL.
func AppendBind(dst []byte, portal, statement string, formats []int16, params [][]byte, resultFormats []int16) []byte {
	dst, start := begin(dst, TypeBind)
	dst = count(str(str(dst, portal), statement), len(formats))
	for _, f := range formats {
		dst = u16(dst, uint16(f))
	}
	dst = count(dst, len(params))
	for _, p := range params {
		dst = value(dst, p)
	}
	dst = count(dst, len(resultFormats))
	for _, f := range resultFormats {
		dst = u16(dst, uint16(f))
	}
	return finish(dst, start)
}

// AppendBindRest appends a Bind with other names and the formats and
// parameters of Bind.Rest.
func AppendBindRest(dst []byte, portal, statement string, rest []byte) []byte {
	dst, start := begin(dst, TypeBind)
	return finish(append(str(str(dst, portal), statement), rest...), start)
}

// AppendBindAs appends a Bind of the unnamed portal with the parameters of another Bind, a whole frame, that asks for
// results in these formats. A malformed one is taken over as it is, for the backend to refuse.
func AppendBindAs(dst []byte, statement string, bind []byte, formats ...int16) []byte {
	b, _ := DecodeBind(Frame{Raw: bind}.Body())
	c := afterParameters(b.Rest)
	if c.err != nil {
		return AppendBindRest(dst, "", statement, b.Rest)
	}
	dst, start := begin(dst, TypeBind)
	dst = append(str(str(dst, ""), statement), b.Rest[:len(b.Rest)-len(c.b)]...)
	dst = count(dst, len(formats))
	for _, f := range formats {
		dst = u16(dst, uint16(f))
	}
	return finish(dst, start)
}

// afterParameters reads the rest of a Bind up to the formats of results.
func afterParameters(rest []byte) cursor {
	c := cursor{b: rest}
	c.bytes(2 * int(c.u16()))
	for range int(c.u16()) {
		c.value()
	}
	return c
}

// ResultFormats are the formats that a Bind, a whole frame, asks for a result of so many columns; false if the Bind is
// malformed, or means another number of them.
func ResultFormats(bind []byte, columns int) ([]int16, bool) {
	b, err := DecodeBind(Frame{Raw: bind}.Body())
	c := afterParameters(b.Rest)
	n := int(c.u16())
	if err != nil || c.err != nil || n > 1 && n != columns || len(c.b) != 2*n {
		return nil, false
	}
	formats := make([]int16, columns)
	for i := range formats {
		if i < n {
			formats[i] = int16(c.u16())
		} else if n == 1 {
			formats[i] = formats[0]
		}
	}
	return formats, true
}

// AppendDescribe appends a Describe of a statement (kind 'S') or portal ('P').
func AppendDescribe(dst []byte, kind byte, name string) []byte {
	dst, start := begin(dst, TypeDescribe)
	return finish(str(append(dst, kind), name), start)
}

// AppendClose appends a Close of a statement (kind 'S') or portal ('P').
func AppendClose(dst []byte, kind byte, name string) []byte {
	dst, start := begin(dst, TypeClose)
	return finish(str(append(dst, kind), name), start)
}

// AppendExecute appends an Execute; maxRows 0 means no limit.
func AppendExecute(dst []byte, portal string, maxRows uint32) []byte {
	dst, start := begin(dst, TypeExecute)
	return finish(u32(str(dst, portal), maxRows), start)
}

// AppendSync appends a Sync.
func AppendSync(dst []byte) []byte { return empty(dst, TypeSync) }

// AppendFlush appends a Flush.
func AppendFlush(dst []byte) []byte { return empty(dst, TypeFlush) }

// AppendTerminate appends a Terminate.
func AppendTerminate(dst []byte) []byte { return empty(dst, TypeTerminate) }

// AppendCopyData appends a CopyData; both sides send it.
func AppendCopyData(dst, data []byte) []byte { return AppendFrame(dst, TypeCopyData, data) }

// AppendCopyDone appends a CopyDone; both sides send it.
func AppendCopyDone(dst []byte) []byte { return empty(dst, TypeCopyDone) }

// AppendCopyFail appends a CopyFail; the server repeats message in its error.
func AppendCopyFail(dst []byte, message string) []byte {
	dst, start := begin(dst, TypeCopyFail)
	return finish(str(dst, message), start)
}

// AppendPasswordMessage appends a clear-text or MD5 password answer.
func AppendPasswordMessage(dst []byte, password string) []byte {
	dst, start := begin(dst, TypePassword)
	return finish(str(dst, password), start)
}

// AppendSASLInitialResponse appends a SASLInitialResponse; nil data means that
// there is no initial response.
func AppendSASLInitialResponse(dst []byte, mechanism string, data []byte) []byte {
	dst, start := begin(dst, TypePassword)
	return finish(value(str(dst, mechanism), data), start)
}

// AppendSASLResponse appends a SASLResponse.
func AppendSASLResponse(dst, data []byte) []byte { return AppendFrame(dst, TypePassword, data) }
