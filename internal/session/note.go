package session

import (
	"encoding/binary"
	"errors"
	"strconv"
	"strings"

	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/wire"
)

// A statement whose effect is not rows (setval) is run here like any other, and its text is noted
// for the other members, with the values of its parameters in it.

// note has statements run at the other members as well, at their place in the transaction. If one cannot be noted,
// because a cancel came late for example, the transaction is over.
func (g *carrying) note(texts []string, steady bool) error {
	for _, text := range texts {
		var failure *wire.SQLError
		var err error
		if g.texts.foreign(text) {
			text, failure, err = g.backend.translate(text)
		}
		if failure != nil {
			return g.tx.forsake(failure)
		}
		if err != nil {
			return err
		}
		d, err := g.described(text)
		if errors.As(err, &failure) {
			return g.tx.forsake(failure)
		}
		if err != nil {
			return err
		}
		d.Steady = steady
		frames, err := g.steps.AppendNote(g.backend.out.AvailableBuffer(), d)
		if err != nil {
			return err
		}
		g.backend.out.Append(wire.AppendSync(frames))
		got, err := g.backend.quiet()
		if err != nil {
			return err
		}
		if got.failed != nil {
			return g.tx.forsake(failureOf(got))
		}
		g.schema.noted = true
	}
	return nil
}

// bound is a statement that is noted, with the parameters that a Bind gives it.
func bound(of *prepared, b wire.Bind) (*prepared, *wire.SQLError) {
	formats, values, err := wire.DecodeBindValues(b.Rest)
	if err != nil {
		return nil, protocolError(err)
	}
	literals := make([]string, len(values))
	for i, v := range values {
		format := uint16(0)
		if len(formats) == 1 {
			format = formats[0]
		} else if i < len(formats) {
			format = formats[i]
		}
		var ok bool
		if literals[i], ok = literal(v, format != 0, of.typeOf(i)); !ok {
			return nil, wire.Errorf(wire.CodeFeatureNotSupported,
				"setval cannot be replicated with parameter $%d in binary form", i+1).
				WithHint("Send it as text, or write the value into the statement.")
		}
	}
	with := *of
	with.note = semantics.Substitute(of.sql, literals)
	return &with, nil
}

// typeOf is the type of a parameter, as the client prescribed it or the backend has told; 0 if
// neither has happened.
func (p *prepared) typeOf(i int) uint32 {
	if i < len(p.types) && p.types[i] != 0 {
		return p.types[i]
	}
	if i < len(p.told) {
		return p.told[i]
	}
	return 0
}

// castOf names the types whose values are written with a cast, by OID.
var castOf = map[uint32]string{16: "bool", 20: "int8", 21: "int2", 23: "int4", 25: "text", 1043: "text",
	1700: "numeric"}

// literal writes a parameter's value as SQL. It does not know how to read every binary form; an
// OID in one means something else at every member.
func literal(value []byte, binaryForm bool, oid uint32) (string, bool) {
	cast := ""
	if name, ok := castOf[oid]; ok {
		cast = "::pg_catalog." + name
	}
	if value == nil {
		return "NULL" + cast, true
	}
	text := string(value)
	if binaryForm {
		switch {
		case oid == 16 && len(value) == 1:
			text = strconv.FormatBool(value[0] != 0)
		case oid == 20 && len(value) == 8:
			text = strconv.FormatInt(int64(binary.BigEndian.Uint64(value)), 10)
		case oid == 21 && len(value) == 2:
			text = strconv.Itoa(int(int16(binary.BigEndian.Uint16(value))))
		case oid == 23 && len(value) == 4:
			text = strconv.Itoa(int(int32(binary.BigEndian.Uint32(value))))
		case oid == 25 || oid == 1043:
		default:
			return "", false
		}
	}
	text = strings.ReplaceAll(text, `'`, `''`)
	if strings.Contains(text, `\`) {
		return "E'" + strings.ReplaceAll(text, `\`, `\\`) + "'" + cast, true
	}
	return "'" + text + "'" + cast, true
}
