package node

import (
	"fmt"

	"encoding/binary"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/writeset"
)

// Payload of a statement item, version 1: byte version, number of settings, then name and
// value of each, then the text; all length-prefixed.
const definitionVersion = 1

func encodeDefinition(d session.Definition) []byte {
	b := []byte{definitionVersion}
	b = binary.AppendUvarint(b, uint64(len(d.Settings)))
	for _, s := range d.Settings {
		b = writeset.AppendBytes(b, []byte(s.Name))
		b = writeset.AppendBytes(b, []byte(s.Value))
	}
	return writeset.AppendBytes(b, []byte(d.SQL))
}

func decodeDefinition(b []byte) (session.Definition, error) {
	r := writeset.NewReader(b)
	if v := r.Byte(); v != definitionVersion {
		return session.Definition{}, fmt.Errorf("statement in the log has version %d, this build knows %d", v, definitionVersion)
	}
	d := session.Definition{Settings: make([]session.Setting, r.Count(2))}
	for i := range d.Settings {
		d.Settings[i] = session.Setting{Name: string(r.Bytes()), Value: string(r.Bytes())}
	}
	d.SQL = string(r.Bytes())
	return d, r.Done()
}
