package session

import (
	"encoding/binary"

	"github.com/tuttidb/tutti/internal/wire"
)

// unreplicated are the built-in functions that change state no trigger sees, by OID, which a
// FunctionCall message gives instead of a name: large objects, setval, set_config.
var unreplicated = map[uint32]bool{
	715: true, 764: true, 767: true, 952: true, 954: true, 955: true, 957: true, 964: true, 1004: true, 3172: true, 3457: true, 3460: true,
	1576: true, 1765: true, 2078: true,
}

// functionCall runs a FunctionCall message; the function may write.
func (s *Session) functionCall(f wire.Frame) error {
	ignored, err := s.finishBatch()
	if ignored || err != nil {
		return err
	}
	if body := f.Body(); len(body) >= 4 && unreplicated[binary.BigEndian.Uint32(body)] {
		err = s.fail(wire.Errorf(wire.CodeFeatureNotSupported, "large objects, setval and set_config cannot be used through the function call message").
			WithHint("Use a bytea column instead of large objects, and SQL for the others."))
	} else {
		var rep reply
		_, err = s.execute(request{frames: f.Raw, write: true}, &rep)
	}
	if err == nil {
		err = s.endImplicit()
	}
	if err != nil {
		return err
	}
	return s.ready()
}
