package locks

import (
	"encoding/binary"
	"fmt"

	"github.com/tuttidb/tutti/internal/writeset"
)

// Action is what a request wants.
type Action uint8

const (
	// Take asks for one lock, and waits for it.
	Take Action = 1
	// Try asks for one lock, and does not wait.
	Try Action = 2
	// Release gives locks back, or stops waiting for them.
	Release Action = 3
	// Leave says that the session is over.
	Leave Action = 4
	// Renew changes nothing. It is heard of, so that its member does not expire.
	Renew Action = 5
	// Expire says that nothing was heard of Member for too long: since its batch Number of Incarnation. It
	// counts only if none came after that.
	Expire Action = 6
	// Blocked says which sessions of the requesting member wait for which others of it, beside this table.
	Blocked Action = 7
)

// Edge says that one session waits for another of the same member, by their numbers.
type Edge struct{ Waiter, Blocker uint64 }

// Request is the payload of a lock item.
type Request struct {
	Action  Action
	Session uint64 // its number, for Take to Leave
	Locks   []Lock // one for Take and Try, any for Release

	// Expire
	Member              uint32
	Incarnation, Number uint64

	Edges []Edge // Blocked
}

// Version 1: byte version, byte action, then by action: uvarint session, count of locks, per lock byte mode,
// byte form, uvarints class and object; or uvarints member, incarnation, number; or the count of edges, per
// edge uvarints waiter and blocker.
const requestVersion = 1

const (
	lockBytesMin = 4
	edgeBytesMin = 2
)

// Append encodes the request.
func (r *Request) Append(dst []byte) []byte {
	dst = append(dst, requestVersion, byte(r.Action))
	switch r.Action {
	case Take, Try, Release, Leave:
		dst = binary.AppendUvarint(dst, r.Session)
		dst = binary.AppendUvarint(dst, uint64(len(r.Locks)))
		for _, l := range r.Locks {
			dst = appendLock(dst, l)
		}
	case Expire:
		dst = binary.AppendUvarint(dst, uint64(r.Member))
		dst = binary.AppendUvarint(dst, r.Incarnation)
		dst = binary.AppendUvarint(dst, r.Number)
	case Blocked:
		dst = binary.AppendUvarint(dst, uint64(len(r.Edges)))
		for _, e := range r.Edges {
			dst = binary.AppendUvarint(binary.AppendUvarint(dst, e.Waiter), e.Blocker)
		}
	}
	return dst
}

func appendLock(dst []byte, l Lock) []byte {
	dst = append(dst, byte(l.Mode), l.Key.Form)
	return binary.AppendUvarint(binary.AppendUvarint(dst, uint64(l.Key.Class)), uint64(l.Key.Object))
}

func readLock(r *writeset.Reader) (Lock, error) {
	l := Lock{Mode: Mode(r.Byte()), Key: Key{Form: r.Byte()}}
	class, object := r.Uvarint(), r.Uvarint()
	l.Key.Class, l.Key.Object = uint32(class), uint32(object)
	if l.Mode != Shared && l.Mode != Exclusive || l.Key.Form != 1 && l.Key.Form != 2 || class > 1<<32-1 ||
		object > 1<<32-1 {
		return l, fmt.Errorf("locks: there is no lock of mode %d, form %d, keys %d and %d", l.Mode, l.Key.Form, class,
			object)
	}
	return l, nil
}

// Decode reads a request that fills data exactly.
func Decode(data []byte) (*Request, error) {
	r := writeset.NewReader(data)
	if v := r.Byte(); v > requestVersion {
		return nil, fmt.Errorf("locks: the request has version %d: %w", v, writeset.ErrUnknown)
	} else if v != requestVersion {
		return nil, fmt.Errorf("locks: the request has version %d, this build knows %d", v, requestVersion)
	}
	q := &Request{Action: Action(r.Byte())}
	switch q.Action {
	case Take, Try, Release, Leave:
		q.Session = r.Uvarint()
		if n := r.Count(lockBytesMin); n > 0 {
			q.Locks = make([]Lock, n)
		}
		for i := range q.Locks {
			var err error
			if q.Locks[i], err = readLock(r); err != nil {
				return nil, err
			}
		}
		if n := len(q.Locks); q.Action <= Try && n != 1 || q.Action == Leave && n != 0 {
			return nil, fmt.Errorf("locks: a request of action %d names %d locks", q.Action, n)
		}
	case Renew:
	case Expire:
		q.Member, q.Incarnation, q.Number = uint32(r.Uvarint()), r.Uvarint(), r.Uvarint()
	case Blocked:
		if n := r.Count(edgeBytesMin); n > 0 {
			q.Edges = make([]Edge, n)
		}
		for i := range q.Edges {
			q.Edges[i] = Edge{r.Uvarint(), r.Uvarint()}
		}
	default:
		return nil, fmt.Errorf("locks: a request has the action %d: %w", q.Action, writeset.ErrUnknown)
	}
	return q, r.Done()
}
