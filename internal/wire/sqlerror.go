package wire

import (
	"errors"
	"fmt"
)

// Severities as the protocol spells them, untranslated.
const (
	SeverityError   = "ERROR"
	SeverityFatal   = "FATAL"
	SeverityPanic   = "PANIC"
	SeverityWarning = "WARNING"
	SeverityNotice  = "NOTICE"
)

// ErrorFields are the fields of ErrorResponse and NoticeResponse. An empty
// string and a zero number mean "absent".
type ErrorFields struct {
	Severity            string // S: possibly translated
	SeverityUnlocalized string // V: when empty, Append functions send Severity
	Code                string // C: SQLSTATE, five characters
	Message             string // M
	Detail              string // D
	Hint                string // H
	Position            int32  // P: in characters, from 1
	InternalPosition    int32  // p
	InternalQuery       string // q
	Where               string // W
	Schema              string // s
	Table               string // t
	Column              string // c
	DataType            string // d
	Constraint          string // n
	File                string // F
	Line                int32  // L
	Routine             string // R
}

// SQLError is an error that a client is to see as an ErrorResponse.
type SQLError struct {
	ErrorFields
}

// Errorf makes an ERROR: the statement fails, the connection goes on.
func Errorf(code, format string, args ...any) *SQLError {
	return newSQLError(SeverityError, code, fmt.Sprintf(format, args...))
}

// Fatalf makes a FATAL: the connection ends after it.
func Fatalf(code, format string, args ...any) *SQLError {
	return newSQLError(SeverityFatal, code, fmt.Sprintf(format, args...))
}

func newSQLError(severity, code, message string) *SQLError {
	return &SQLError{ErrorFields{Severity: severity, SeverityUnlocalized: severity, Code: code, Message: message}}
}

// WithDetail returns a copy of e with this DETAIL.
func (e *SQLError) WithDetail(format string, args ...any) *SQLError {
	c := *e
	c.Detail = fmt.Sprintf(format, args...)
	return &c
}

// WithHint returns a copy of e with this HINT.
func (e *SQLError) WithHint(format string, args ...any) *SQLError {
	c := *e
	c.Hint = fmt.Sprintf(format, args...)
	return &c
}

// WithPosition returns a copy of e that points at a character of the query,
// counted from 1.
func (e *SQLError) WithPosition(position int32) *SQLError {
	c := *e
	c.Position = position
	return &c
}

// AsFatal returns a copy of e with severity FATAL.
func (e *SQLError) AsFatal() *SQLError {
	c := *e
	c.Severity, c.SeverityUnlocalized = SeverityFatal, SeverityFatal
	return &c
}

// Error is one line: severity, message, SQLSTATE, detail.
func (e *SQLError) Error() string { return e.ErrorFields.line() }

// SQLState returns the five-character code.
func (e *SQLError) SQLState() string { return e.Code }

// Append appends e as an ErrorResponse.
func (e *SQLError) Append(dst []byte) []byte { return AppendErrorResponse(dst, e.ErrorFields) }

func (f ErrorFields) line() string {
	s := fmt.Sprintf("%s: %s (SQLSTATE %s)", f.Severity, f.Message, f.Code)
	if f.Detail != "" {
		s += ": " + f.Detail
	}
	return s
}

// ProtocolError reports that a peer broke the protocol. Severity is FATAL
// when the stream cannot be followed any further (framing), ERROR when only
// the body of one message is bad, as in PostgreSQL.
type ProtocolError struct {
	Severity string
	Code     string // almost always 08P01
	Message  string
	Detail   string
}

func (e *ProtocolError) Error() string { return e.SQLError().Error() }

// SQLState returns the five-character code.
func (e *ProtocolError) SQLState() string { return e.Code }

// SQLError returns what a client that broke the protocol is told.
func (e *ProtocolError) SQLError() *SQLError {
	s := newSQLError(e.Severity, e.Code, e.Message)
	s.Detail = e.Detail
	return s
}

func fatalProtocol(format string, args ...any) *ProtocolError {
	return &ProtocolError{Severity: SeverityFatal, Code: CodeProtocolViolation, Message: fmt.Sprintf(format, args...)}
}

func badMessage(text string) *ProtocolError {
	return &ProtocolError{Severity: SeverityError, Code: CodeProtocolViolation, Message: text}
}

// toClient finds what a client may be told of err; nil when err holds nothing
// meant for a client.
func toClient(err error) *SQLError {
	var s *SQLError
	if errors.As(err, &s) {
		return s
	}
	var p *ProtocolError
	if errors.As(err, &p) {
		return p.SQLError()
	}
	return nil
}
