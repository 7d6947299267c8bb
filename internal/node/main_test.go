package node

import (
	"testing"

	"github.com/tuttidb/tutti/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }
