package wire

import "encoding/binary"

// DecodeQuery reads the body of a Query.
func DecodeQuery(body []byte) (sql string, err error) {
	c := cursor{b: body}
	sql = c.str()
	return sql, c.end()
}

// Parse is the body of a Parse message.
type Parse struct {
	Name, SQL string
	Rest      []byte // count and OIDs of the parameter types; aliases the body
}

// DecodeParse reads the body of a Parse.
func DecodeParse(body []byte) (Parse, error) {
	c := cursor{b: body}
	p := Parse{Name: c.str(), SQL: c.str()}
	p.Rest = c.b
	c.bytes(4 * int(c.u16()))
	return p, c.end()
}

// ParamOIDs returns the parameter types the client prescribed; 0 is unknown.
func (p Parse) ParamOIDs() []uint32 {
	oids := make([]uint32, 0, len(p.Rest)/4)
	for b := p.Rest; len(b) >= 6; b = b[4:] {
		oids = append(oids, binary.BigEndian.Uint32(b[2:]))
	}
	return oids
}

// Bind is the body of a Bind message.
type Bind struct {
	Portal, Statement string
	Rest              []byte // formats and parameters, unchecked; aliases the body
}

// DecodeBind reads the names in the body of a Bind.
func DecodeBind(body []byte) (Bind, error) {
	c := cursor{b: body}
	b := Bind{Portal: c.str(), Statement: c.str()}
	b.Rest = c.rest()
	return b, c.end()
}

// DecodeBindValues reads the formats and the parameters in the Rest of a Bind; a value is nil for
// NULL. They alias it.
func DecodeBindValues(rest []byte) (formats []uint16, values [][]byte, err error) {
	c := cursor{b: rest}
	for n := c.u16(); n > 0 && c.err == nil; n-- {
		formats = append(formats, c.u16())
	}
	for n := c.u16(); n > 0 && c.err == nil; n-- {
		values = append(values, c.value())
	}
	return formats, values, c.err
}

// DecodeTarget reads the body of a Describe or a Close: kind 'S' (statement)
// or 'P' (portal) and a name. Other kinds are returned as they are, the server
// words the error.
func DecodeTarget(body []byte) (kind byte, name string, err error) {
	c := cursor{b: body}
	kind, name = c.byte(), c.str()
	return kind, name, c.end()
}

// DecodeExecute reads the body of an Execute; maxRows 0 means no limit.
func DecodeExecute(body []byte) (portal string, maxRows uint32, err error) {
	c := cursor{b: body}
	portal, maxRows = c.str(), c.u32()
	return portal, maxRows, c.end()
}

// DecodeSASLInitialResponse reads the body of a SASLInitialResponse; data
// aliases the body and is nil when the client sent no initial response.
func DecodeSASLInitialResponse(body []byte) (mechanism string, data []byte, err error) {
	c := cursor{b: body}
	mechanism, data = c.str(), c.value()
	return mechanism, data, c.end()
}
