package replay

import (
	"encoding/binary"
	"fmt"

	"github.com/tuttidb/tutti/internal/semantics"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/writeset"
)

// Payload of a statement item, version 1: byte version, number of settings, then name and
// value of each, then the text; all length-prefixed. Version 2 goes on with what the statement does to a
// database: byte change, name, new name, byte of flags. Version 3 is nothing but the number of a meeting, see
// meet. Version 4 goes on with an index to be built beside everything else: schema, table, name. Version 5 goes on with
// a partition that is detached in two steps: byte 1 for the second one, schema and name of its parent and its own.
// Version 6 goes on with what it does to the list of members: byte change, name, address, address for clients; for
// witnesses, roles, ranks and sites the rank, in two's complement, and the site; and with the list before that, if it
// is the first change: number of members, then number, name and both addresses of each.
// Version 8 goes on with what it does to what holds for the cluster: byte change, uvarints level and copies, time.
const (
	definitionVersion         = 1
	definitionVersionDatabase = 2
	definitionVersionMeeting  = 3
	definitionVersionIndex    = 4
	definitionVersionDetach   = 5
	definitionVersionMembers  = 6
	definitionVersionRecord   = 8
	definitionVersionLast     = definitionVersionRecord
)

// Flags of what is done to a database. Builds that do not know byVoters get none with it (bootstrap.FirstVoters).
const (
	ifExists = 1 << iota
	byVoters
)

// versionOf is the version of the format that says what a definition does.
func versionOf(d *session.Definition) byte {
	switch {
	case d.Database.Does != semantics.NoDatabase:
		return definitionVersionDatabase
	case d.Index.Name != "":
		return definitionVersionIndex
	case d.Detach.Partition[1] != "":
		return definitionVersionDetach
	case d.Membership.Does != semantics.NoMember:
		return definitionVersionMembers
	case d.Record.Does != semantics.NoRecord:
		return definitionVersionRecord
	}
	return definitionVersion
}

func EncodeDefinition(d session.Definition) []byte {
	b := []byte{versionOf(&d)}
	b = binary.AppendUvarint(b, uint64(len(d.Settings)))
	for _, s := range d.Settings {
		b = writeset.AppendBytes(b, []byte(s.Name))
		b = writeset.AppendBytes(b, []byte(s.Value))
	}
	b = writeset.AppendBytes(b, []byte(d.SQL))
	if db := d.Database; db.Does != semantics.NoDatabase {
		b = writeset.AppendBytes(append(b, byte(db.Does)), []byte(db.Name))
		b = writeset.AppendBytes(b, []byte(db.To))
		b = append(b, map[bool]byte{true: ifExists}[db.IfExists]|map[bool]byte{true: byVoters}[d.ByVoters])
	} else if x := d.Index; x.Name != "" {
		for _, s := range []string{x.Schema, x.Table, x.Name} {
			b = writeset.AppendBytes(b, []byte(s))
		}
	} else if x := d.Detach; x.Partition[1] != "" {
		b = append(b, map[bool]byte{true: 1}[x.Ends])
		for _, s := range []string{x.Parent[0], x.Parent[1], x.Partition[0], x.Partition[1]} {
			b = writeset.AppendBytes(b, []byte(s))
		}
	} else if m := d.Membership; m.Does != semantics.NoMember {
		b = append(b, byte(m.Does))
		for _, s := range []string{m.Name, m.Address, m.Clients} {
			b = writeset.AppendBytes(b, []byte(s))
		}
		if m.Does.Later() {
			b = writeset.AppendBytes(binary.AppendUvarint(b, uint64(uint32(m.Rank))), []byte(m.Site))
		}
		b = binary.AppendUvarint(b, uint64(len(d.Began)))
		for _, m := range d.Began {
			b = binary.AppendUvarint(b, uint64(m.Number))
			for _, s := range []string{m.Name, m.Address, m.Clients} {
				b = writeset.AppendBytes(b, []byte(s))
			}
		}
	} else if d.Record.Does != semantics.NoRecord {
		b = appendRecord(b, d.Record)
	}
	return b
}

func EncodeMeeting(number uint64) []byte {
	return binary.AppendUvarint([]byte{definitionVersionMeeting}, number)
}

// DecodeDefinition returns a definition, or the number of a meeting.
func DecodeDefinition(b []byte) (d session.Definition, meeting uint64, err error) {
	r := writeset.NewReader(b)
	version := r.Byte()
	switch version {
	case definitionVersion, definitionVersionDatabase, definitionVersionIndex, definitionVersionDetach,
		definitionVersionMembers, definitionVersionRecord:
	case definitionVersionMeeting:
		meeting = r.Uvarint()
		return d, meeting, r.Done()
	default:
		return d, 0, fmt.Errorf("statement in the log has version %d, this build knows %d to %d: %w", version,
			definitionVersion, definitionVersionLast, writeset.ErrUnknown)
	}
	d.Settings = make([]session.Setting, r.Count(2))
	for i := range d.Settings {
		d.Settings[i] = session.Setting{Name: string(r.Bytes()), Value: string(r.Bytes())}
	}
	d.SQL = string(r.Bytes())
	switch version {
	case definitionVersionIndex:
		d.Index = session.Index{Schema: string(r.Bytes()), Table: string(r.Bytes()), Name: string(r.Bytes())}
	case definitionVersionDetach:
		d.Detach.Ends = r.Byte() == 1
		for _, s := range []*string{&d.Detach.Parent[0], &d.Detach.Parent[1], &d.Detach.Partition[0],
			&d.Detach.Partition[1]} {
			*s = string(r.Bytes())
		}
	case definitionVersionMembers:
		if d.Membership, err = readMembership(r); err != nil {
			return d, 0, err
		}
		for range r.Count(4) {
			d.Began = append(d.Began, session.FirstMember{Number: uint32(r.Uvarint()), Name: string(r.Bytes()),
				Address: string(r.Bytes()), Clients: string(r.Bytes())})
		}
	case definitionVersionRecord:
		if d.Record, err = readRecord(r); err != nil {
			return d, 0, err
		}
	case definitionVersionDatabase:
		d.Database = semantics.Database{Does: semantics.DatabaseChange(r.Byte()), Name: string(r.Bytes()),
			To: string(r.Bytes())}
		flags := r.Byte()
		d.Database.IfExists, d.ByVoters = flags&ifExists != 0, flags&byVoters != 0
		if !d.Database.Does.Valid() || d.Database.Does == semantics.NoDatabase {
			return d, 0, fmt.Errorf("statement in the log does something to a database (%d): %w", d.Database.Does,
				writeset.ErrUnknown)
		}
	}
	return d, 0, r.Done()
}

func readMembership(r *writeset.Reader) (semantics.Membership, error) {
	m := semantics.Membership{Does: semantics.MemberChange(r.Byte()), Name: string(r.Bytes()),
		Address: string(r.Bytes()), Clients: string(r.Bytes())}
	switch {
	case !m.Does.Valid() || m.Does == semantics.NoMember:
		return m, fmt.Errorf("statement in the log does something to the members (%d): %w", m.Does,
			writeset.ErrUnknown)
	case m.Does.Later():
		m.Rank, m.Site = int32(uint32(r.Uvarint())), string(r.Bytes())
	}
	return m, nil
}

func appendRecord(b []byte, r semantics.Record) []byte {
	b = binary.AppendUvarint(append(b, byte(r.Does)), uint64(r.Level))
	return writeset.AppendBytes(binary.AppendUvarint(b, uint64(r.MinCopies)), []byte(r.ExpelAfter))
}

func readRecord(r *writeset.Reader) (semantics.Record, error) {
	c := semantics.Record{Does: semantics.RecordChange(r.Byte()), Level: uint32(r.Uvarint()),
		MinCopies: int(r.Uvarint()), ExpelAfter: string(r.Bytes())}
	if !c.Does.Valid() || c.Does == semantics.NoRecord {
		return c, fmt.Errorf("statement in the log does something to what holds for the cluster (%d): %w", c.Does,
			writeset.ErrUnknown)
	}
	return c, nil
}
