package instance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// backupStream reads the CopyData messages of BASE_BACKUP as PostgreSQL 15 and later send
// them (protocol documentation, "Streaming Replication Protocol"): 'n' begins an archive,
// 'd' carries its bytes, 'p' is progress, 'm' a manifest, which is not asked for.
//
// As an io.Reader it gives the current archive's bytes, then io.EOF.
type backupStream struct {
	ctx      context.Context // of the one Clone this stream lives in
	receive  func(context.Context) (pgproto3.BackendMessage, error)
	progress func(int64)

	bytes   int64  // archive bytes received
	rest    []byte // unread part of the last 'd'; aliases the connection's buffer
	pending string // name of an archive that has begun and is not yet read
	ended   bool   // CopyDone was received
}

// nextArchive skips what is left of the current archive and returns the next one's name, ""
// after the last.
func (s *backupStream) nextArchive() (string, error) {
	for s.pending == "" && !s.ended {
		if err := s.step(); err != nil {
			return "", err
		}
	}
	s.rest = nil
	name := s.pending
	s.pending = ""
	return name, nil
}

// Read implements io.Reader.
func (s *backupStream) Read(p []byte) (int, error) {
	for len(s.rest) == 0 {
		if s.pending != "" || s.ended {
			return 0, io.EOF
		}
		if err := s.step(); err != nil {
			return 0, err
		}
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// step receives one message.
func (s *backupStream) step() error {
	msg, err := s.receive(s.ctx)
	if err != nil {
		return fmt.Errorf("the connection to the donor broke after %d bytes: %w", s.bytes, err)
	}
	switch msg := msg.(type) {
	case *pgproto3.CopyData:
		return s.copyData(msg.Data)
	case *pgproto3.CopyDone:
		s.ended = true
	case *pgproto3.ErrorResponse:
		return fmt.Errorf("the donor ended the backup after %d bytes: %w", s.bytes, pgconn.ErrorResponseToPgError(msg))
	case *pgproto3.NoticeResponse, *pgproto3.ParameterStatus:
	default:
		return fmt.Errorf("unexpected message %T in a base backup", msg)
	}
	return nil
}

var errCopyData = errors.New("malformed message in a base backup")

func (s *backupStream) copyData(b []byte) error {
	if len(b) == 0 {
		return errCopyData
	}
	switch kind, body := b[0], b[1:]; kind {
	case 'n':
		name, after, ok := bytes.Cut(body, []byte{0})
		location, end, ok2 := bytes.Cut(after, []byte{0})
		if !ok || !ok2 || len(name) == 0 || len(end) != 0 {
			return errCopyData
		}
		if len(location) != 0 {
			return fmt.Errorf("the donor sends a tablespace (%s): tablespaces are not cloned", location)
		}
		s.pending = string(name)
	case 'd':
		s.rest = body
		s.bytes += int64(len(body))
		if s.progress != nil {
			s.progress(s.bytes)
		}
	case 'p':
	default:
		return fmt.Errorf("%w: kind %q", errCopyData, kind)
	}
	return nil
}
