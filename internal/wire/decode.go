package wire

import (
	"bytes"
	"encoding/binary"
)

// The Decode functions take the body of a frame. Strings they return are
// copies; byte slices alias the body. An error is a *ProtocolError with
// severity ERROR, in PostgreSQL's words: the message is bad, the stream is not.

// cursor reads a body from the front; the first failure sticks.
type cursor struct {
	b   []byte
	err error
}

func (c *cursor) fail(text string) {
	if c.err == nil {
		c.err = badMessage(text)
		c.b = nil
	}
}

func (c *cursor) bytes(n int) []byte {
	if n < 0 || n > len(c.b) {
		c.fail("insufficient data left in message")
		return nil
	}
	v := c.b[:n:n]
	c.b = c.b[n:]
	return v
}

func (c *cursor) byte() byte {
	if v := c.bytes(1); v != nil {
		return v[0]
	}
	return 0
}

func (c *cursor) u16() uint16 {
	if v := c.bytes(2); v != nil {
		return binary.BigEndian.Uint16(v)
	}
	return 0
}

func (c *cursor) u32() uint32 {
	if v := c.bytes(4); v != nil {
		return binary.BigEndian.Uint32(v)
	}
	return 0
}

// cstring returns the bytes before the next zero byte and skips that byte.
func (c *cursor) cstring() []byte {
	i := bytes.IndexByte(c.b, 0)
	if i < 0 {
		c.fail("invalid string in message")
		return nil
	}
	v := c.b[:i:i]
	c.b = c.b[i+1:]
	return v
}

func (c *cursor) str() string { return string(c.cstring()) }

// value returns a length-counted value; nil is NULL.
func (c *cursor) value() []byte {
	n := c.u32()
	if n == 0xffffffff || c.err != nil {
		return nil
	}
	if uint64(n) > uint64(len(c.b)) {
		c.fail("insufficient data left in message")
		return nil
	}
	return c.bytes(int(n))
}

// rest returns all that is left.
func (c *cursor) rest() []byte {
	v := c.b
	c.b = nil
	return v
}

// end fails unless the body is used up, and returns the first failure.
func (c *cursor) end() error {
	if len(c.b) != 0 {
		c.fail("invalid message format")
	}
	return c.err
}
