package transport

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// A frame on the wire: payload length 4, CRC-32C of length and payload 4, payload; integers
// little-endian. A frame without payload is a ping.
const frameHeaderBytes = 8

var (
	errChecksum = errors.New("frame has a wrong checksum")
	// errFrameTooLong is in the chain of the error that closes a connection.
	errFrameTooLong = errors.New("frame is too long")
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// appendFrameHeader appends the header that goes before payload.
func appendFrameHeader(dst, payload []byte) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(payload)))
	crc := crc32.Update(crc32.Checksum(dst[len(dst)-4:], castagnoli), castagnoli, payload)
	return binary.LittleEndian.AppendUint32(dst, crc)
}

// readFrame reads one frame of at most bytesMax bytes; a ping is an empty one. The result is
// the caller's.
func readFrame(r io.Reader, bytesMax int) ([]byte, error) {
	var header [frameHeaderBytes]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return nil, err
	}
	length := binary.LittleEndian.Uint32(header[:])
	if uint64(length) > uint64(bytesMax) {
		return nil, fmt.Errorf("%w: %d bytes, the limit here is %d; set the same frame limit on all members",
			errFrameTooLong, length, bytesMax)
	}
	payload := make([]byte, length)
	if _, err := io.ReadFull(r, payload); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	crc := crc32.Update(crc32.Checksum(header[:4], castagnoli), castagnoli, payload)
	if crc != binary.LittleEndian.Uint32(header[4:]) {
		return nil, errChecksum
	}
	return payload, nil
}
