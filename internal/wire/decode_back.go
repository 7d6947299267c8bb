package wire

import "strconv"

// DecodeErrorFields reads the body of an ErrorResponse or NoticeResponse.
// Unknown fields are ignored; a number that is none reads as 0.
func DecodeErrorFields(body []byte) (ErrorFields, error) {
	var f ErrorFields
	c := cursor{b: body}
	for {
		key := c.byte()
		if key == 0 {
			return f, c.end()
		}
		f.set(key, c.str())
	}
}

// texts are the fields that are text, by their keys.
var texts = map[byte]func(*ErrorFields) *string{
	'S': func(f *ErrorFields) *string { return &f.Severity },
	'V': func(f *ErrorFields) *string { return &f.SeverityUnlocalized },
	'C': func(f *ErrorFields) *string { return &f.Code },
	'M': func(f *ErrorFields) *string { return &f.Message },
	'D': func(f *ErrorFields) *string { return &f.Detail },
	'H': func(f *ErrorFields) *string { return &f.Hint },
	'q': func(f *ErrorFields) *string { return &f.InternalQuery },
	'W': func(f *ErrorFields) *string { return &f.Where },
	's': func(f *ErrorFields) *string { return &f.Schema },
	't': func(f *ErrorFields) *string { return &f.Table },
	'c': func(f *ErrorFields) *string { return &f.Column },
	'd': func(f *ErrorFields) *string { return &f.DataType },
	'n': func(f *ErrorFields) *string { return &f.Constraint },
	'F': func(f *ErrorFields) *string { return &f.File },
	'R': func(f *ErrorFields) *string { return &f.Routine },
}

func (f *ErrorFields) set(key byte, s string) {
	switch key {
	case 'P':
		f.Position = atoi(s)
	case 'p':
		f.InternalPosition = atoi(s)
	case 'L':
		f.Line = atoi(s)
	default:
		if text := texts[key]; text != nil {
			*text(f) = s
		}
	}
}

func atoi(s string) int32 {
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil {
		return 0
	}
	return int32(n)
}

// DecodeCommandComplete reads the body of a CommandComplete.
func DecodeCommandComplete(body []byte) (tag string, err error) {
	c := cursor{b: body}
	tag = c.str()
	return tag, c.end()
}

// DecodeReadyForQuery reads the body of a ReadyForQuery and accepts only
// TxIdle, TxActive and TxFailed.
func DecodeReadyForQuery(body []byte) (status byte, err error) {
	c := cursor{b: body}
	status = c.byte()
	if c.err == nil && status != TxIdle && status != TxActive && status != TxFailed {
		c.fail("invalid transaction status in ReadyForQuery")
	}
	return status, c.end()
}

// DecodeParameterStatus reads the body of a ParameterStatus.
func DecodeParameterStatus(body []byte) (name, value string, err error) {
	c := cursor{b: body}
	name, value = c.str(), c.str()
	return name, value, c.end()
}

// DecodeBackendKeyData reads the body of a BackendKeyData. The secret, 1 to
// 256 bytes, aliases the body.
func DecodeBackendKeyData(body []byte) (pid uint32, secret []byte, err error) {
	c := cursor{b: body}
	pid, secret = c.u32(), c.rest()
	if c.err == nil && (len(secret) == 0 || len(secret) > cancelKeyBytesMax) {
		c.fail("invalid length of cancel key in BackendKeyData")
	}
	return pid, secret, c.err
}

const columnBytesMin = 1 + 18 // an empty name and the fixed fields

// DecodeRowDescription reads the body of a RowDescription.
func DecodeRowDescription(body []byte) ([]Column, error) {
	c := cursor{b: body}
	n := int(c.u16())
	if n*columnBytesMin > len(c.b) {
		c.fail("insufficient data left in message")
		return nil, c.err
	}
	columns := make([]Column, n)
	for i := range columns {
		columns[i] = Column{
			Name:     c.str(),
			TableOID: c.u32(),
			Attr:     c.u16(),
			TypeOID:  c.u32(),
			TypeLen:  int16(c.u16()),
			TypeMod:  int32(c.u32()),
			Format:   int16(c.u16()),
		}
	}
	if err := c.end(); err != nil {
		return nil, err
	}
	return columns, nil
}

// DecodeParameterDescription reads the body of a ParameterDescription.
func DecodeParameterDescription(body []byte) ([]uint32, error) {
	c := cursor{b: body}
	n := int(c.u16())
	if 4*n > len(c.b) {
		c.fail("insufficient data left in message")
		return nil, c.err
	}
	oids := make([]uint32, n)
	for i := range oids {
		oids[i] = c.u32()
	}
	if err := c.end(); err != nil {
		return nil, err
	}
	return oids, nil
}

// DecodeDataRow appends the values of a DataRow to dst, which may be nil or a
// slice to use again. The values alias the body; nil is NULL.
func DecodeDataRow(dst [][]byte, body []byte) ([][]byte, error) {
	c := cursor{b: body}
	n := int(c.u16())
	if 4*n > len(c.b) {
		c.fail("insufficient data left in message")
		return dst, c.err
	}
	for range n {
		dst = append(dst, c.value())
	}
	return dst, c.end()
}

// DecodeAuthentication reads the code of an Authentication message, and what
// follows it, which aliases the body.
func DecodeAuthentication(body []byte) (code uint32, rest []byte, err error) {
	c := cursor{b: body}
	code, rest = c.u32(), c.rest()
	return code, rest, c.err
}

// DecodeSASLMechanisms reads the rest of an AuthenticationSASL.
func DecodeSASLMechanisms(rest []byte) ([]string, error) {
	var names []string
	c := cursor{b: rest}
	for {
		name := c.str()
		if name == "" {
			return names, c.end()
		}
		names = append(names, name)
	}
}
