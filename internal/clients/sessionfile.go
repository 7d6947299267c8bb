package clients

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/tuttidb/tutti/internal/capture"
	"github.com/tuttidb/tutti/internal/database/instance"
)

// SessionFile tells the local PostgreSQL where the sessions come from, for the view tutti.sessions. See
// capture.SessionsFile.
type SessionFile struct {
	log *slog.Logger

	mu   sync.Mutex
	file *os.File
	free []int // records that no session has
}

var blankRecord = append(bytes.Repeat([]byte{' '}, capture.SessionRecordBytes-1), '\n')

// OpenSessionFile makes the file anew, with room for as many sessions as there may be. The server runs.
func OpenSessionFile(pg *instance.Instance, sessions int, log *slog.Logger) (*SessionFile, error) {
	f, err := pg.Share(capture.SessionsFile)
	if err != nil {
		return nil, fmt.Errorf("clients: %w", err)
	}
	if _, err := f.Write(bytes.Repeat(blankRecord, sessions)); err != nil {
		_ = f.Close() // of no use
		return nil, fmt.Errorf("clients: %s: %w", capture.SessionsFile, err)
	}
	s := &SessionFile{log: log, file: f}
	for i := sessions; i > 0; i-- {
		s.free = append(s.free, i-1)
	}
	return s, nil
}

// Enter notes a session that has logged in; leave takes that back. A session that cannot be noted goes on without.
func (s *SessionFile) Enter(pid uint32, c *Client) (leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.free) == 0 {
		s.log.Warn("a session has no place in tutti.sessions", "pid", pid)
		return func() {}
	}
	i := s.free[len(s.free)-1]
	s.free = s.free[:len(s.free)-1]
	s.write(i, capture.SessionRecord(pid, time.Now().UnixMicro(), c.Address.Addr().String(), c.Address.Port(), c.TLS))
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.write(i, blankRecord)
		s.free = append(s.free, i)
	}
}

func (s *SessionFile) write(i int, record []byte) {
	if _, err := s.file.WriteAt(record, int64(i)*capture.SessionRecordBytes); err != nil {
		s.log.Warn("tutti.sessions cannot be told of a session", "error", err)
	}
}

// Close is called when no session is left.
func (s *SessionFile) Close() {
	if err := s.file.Close(); err != nil {
		s.log.Warn("closing what tutti.sessions is told by", "error", err)
	}
}
