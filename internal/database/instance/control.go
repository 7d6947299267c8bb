package instance

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
)

// dbState is the state field of global/pg_control (DBState in catalog/pg_control.h).
type dbState uint32

const (
	dbStartup            dbState = 0
	dbShutdowned         dbState = 1
	dbShutdownedRecovery dbState = 2
	dbInProduction       dbState = 6
)

// Offsets in ControlFileData, the same in all supported versions: system_identifier (8
// bytes), pg_control_version (4), catalog_version_no (4), state (4).
const (
	controlVersionOffset = 8
	controlStateOffset   = 16
	controlMinBytes      = 20
)

// readControl reads the state the database was left in. The server writes the file in the
// machine's byte order.
func readControl(dataDir string) (dbState, error) {
	path := filepath.Join(dataDir, "global", "pg_control")
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, fmt.Errorf("reading the database's state: %w", err)
	}
	s, err := parseControl(b)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

func parseControl(b []byte) (dbState, error) {
	if len(b) < controlMinBytes {
		return 0, fmt.Errorf("damaged: only %d bytes", len(b))
	}
	// 1300 is PostgreSQL 13's; 15 to 18 use 1300 and 1800. Another byte order gives nonsense.
	if v := binary.NativeEndian.Uint32(b[controlVersionOffset:]); v < 1300 || v > 9900 {
		return 0, fmt.Errorf("damaged, or of another machine: format %d", v)
	}
	s := dbState(binary.NativeEndian.Uint32(b[controlStateOffset:]))
	if s > dbInProduction {
		return 0, fmt.Errorf("damaged: state %d", s)
	}
	return s, nil
}
