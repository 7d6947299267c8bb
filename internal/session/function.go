package session

import (
	"encoding/binary"

	"github.com/tuttidb/tutti/internal/wire"
)

// unreplicated are the built-in functions that change state no trigger sees, by OID, which a
// FunctionCall message gives instead of a name: large objects, setval, set_config; and PostgreSQL's own advisory
// locks, which have other names now (capture.LockState).
var unreplicated = map[uint32]bool{
	715: true, 764: true, 767: true, 952: true, 955: true, 957: true, 964: true, 1004: true, 3172: true, 3457: true,
	3460: true,
	1576: true, 1765: true, 2078: true,
	2880: true, 2881: true, 2882: true, 2883: true, 2884: true, 2885: true, 2886: true, 2887: true, 2888: true,
	2889: true, 2890: true, 2891: true, 2892: true,
	3089: true, 3090: true, 3091: true, 3092: true, 3093: true, 3094: true, 3095: true, 3096: true,
}

// functionCall runs a FunctionCall message; the function may write.
func (s *Session) functionCall(f wire.Frame) error {
	ignored, err := s.finishBatch()
	if ignored || err != nil {
		return err
	}
	if body := f.Body(); len(body) >= 4 && unreplicated[binary.BigEndian.Uint32(body)] {
		err = s.block.fail(wire.Errorf(wire.CodeFeatureNotSupported,
			"this function cannot be used through the function call message").
			WithHint("Functions that write large objects have other OIDs here: look them up by name. Use SQL for " +
				"setval, set_config and advisory locks."))
	} else {
		var rep reply
		_, err = s.executing.execute(request{frames: f.Raw, does: doing{write: true}}, &rep)
	}
	if err == nil {
		err = s.endImplicit()
	}
	if err != nil {
		return err
	}
	return s.ready()
}
