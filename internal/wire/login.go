package wire

import (
	"bytes"
	"fmt"
	"net"
	"time"
)

// LoginOptions say what Login lets pass.
type LoginOptions struct {
	// AllowTrust lets in a client whom the local server admitted without
	// asking it for anything. Over the unix socket that is "trust", or "peer"
	// with this process's own identity: anybody who reaches the member would
	// be that role. Default: refused.
	AllowTrust bool
	// Require is the weakest proof of who the client is that will do, whatever the local server asks for.
	Require Proof
}

// Proof is what a client is asked for.
type Proof byte

// Proofs, from none to the strongest.
const (
	ProofNone     Proof = iota
	ProofPassword       // in clear text
	ProofMD5
	ProofSCRAM
)

// String is the name of the method in pg_hba.conf.
func (p Proof) String() string { return [...]string{"trust", "password", "md5", "scram-sha-256"}[p] }

// LoginResult is a client logged in at the local server.
type LoginResult struct {
	BackendPID    uint32
	BackendSecret []byte            // for SendCancel; never for the client
	Status        map[string]string // the server's ParameterStatus
	Frames        []byte            // ParameterStatus and notices, for the client
	TxStatus      byte              // of ReadyForQuery
	Reader        *Reader           // of backend, with what was read ahead; BackendLimits
	Proof         Proof             // that the client has given
}

// String leaves out the secret (W5).
func (r *LoginResult) String() string { return fmt.Sprintf("backend pid %d", r.BackendPID) }

// BackendError is an error by which the local server refused a login. The
// client has seen it word for word.
type BackendError struct{ Fields ErrorFields }

func (e *BackendError) Error() string {
	return "local server refused the login: " + e.Fields.line()
}

// SQLState returns the five-character code.
func (e *BackendError) SQLState() string { return e.Fields.Code }

// ClientError reports that the client went away, timed out or broke the
// protocol during authentication.
type ClientError struct{ Err error }

func (e *ClientError) Error() string { return "client during authentication: " + e.Err.Error() }

func (e *ClientError) Unwrap() error { return e.Err }

// Login has the local server authenticate the client: it sends params (nil:
// client.Ordered) as a protocol 3.0 start-up packet on backend, a connection
// without TLS, and relays the authentication until the server is ready. The
// client has then got AuthenticationOk; the caller goes on with
// LoginResult.Frames, a BackendKeyData of its own and ReadyForQuery. The
// deadlines of both connections are lifted, and client.Reader accepts
// FrontendLimits.
//
// On an error (*BackendError, *ClientError, or one that wraps an *SQLError)
// the client has been told (W6); the caller closes both connections.
func Login(client *Startup, backend net.Conn, params []Param, o LoginOptions) (*LoginResult, error) {
	if params == nil {
		params = client.Ordered
	}
	l := &login{
		options: o, client: client,
		toClient: NewWriter(client.Conn), toBackend: NewWriter(backend),
		result: &LoginResult{Status: map[string]string{}, Reader: NewReader(backend, loginLimits)},
	}
	err := backend.SetDeadline(client.Deadline)
	if err == nil {
		l.toBackend.Append(AppendStartup(nil, protocolMajor, 0, params))
		err = l.run()
	} else {
		err = backendFailed(err)
	}
	if err == nil {
		if err = backend.SetDeadline(time.Time{}); err != nil {
			err = backendFailed(err)
		}
	}
	if err != nil {
		return nil, l.refuse(err)
	}
	if err := client.Authenticated(); err != nil {
		return nil, &ClientError{err}
	}
	l.result.Reader.SetLimits(BackendLimits())
	return l.result, nil
}

// backendFailed words a broken connection to the local server.
func backendFailed(err error) error {
	text := "the local PostgreSQL closed or broke the connection during start-up"
	if isTimeout(err) {
		text = "the local PostgreSQL did not finish the start-up in time"
	}
	return fmt.Errorf("%w: %w", Fatalf(CodeCannotConnectNow, "%s", text).WithHint("Try again, or try another member."),
		err)
}

// login is the state of one Login.
type login struct {
	options   LoginOptions
	client    *Startup
	toClient  *Writer
	toBackend *Writer
	result    *LoginResult
	offered   []string // SASL mechanisms the client may choose from
	ok        bool     // AuthenticationOk has come
}

// run relays until ReadyForQuery.
func (l *login) run() error {
	for {
		if err := l.toBackend.Flush(); err != nil {
			return backendFailed(err)
		}
		f, err := l.result.Reader.Next()
		if err != nil {
			return backendFailed(err)
		}
		switch {
		case f.Type == TypeAuthentication && !l.ok:
			err = l.authentication(f)
		case f.Type == TypeErrorResponse:
			return l.backendError(f)
		case f.Type == TypeNoticeResponse:
			err = l.hold(f)
		case f.Type == TypeParameterStatus && l.ok:
			err = l.parameterStatus(f)
		case f.Type == TypeBackendKeyData && l.ok:
			err = l.keyData(f)
		case f.Type == TypeReadyForQuery && l.ok:
			return l.ready(f)
		default:
			err = unexpected(f)
		}
		if err != nil {
			return err
		}
	}
}

func unexpected(f Frame) error {
	return backendFailed(fmt.Errorf("unexpected message type %q during start-up", f.Type))
}

// backendError relays the server's refusal word for word.
func (l *login) backendError(f Frame) error {
	fields, err := DecodeErrorFields(f.Body())
	if err != nil {
		return backendFailed(err)
	}
	l.toClient.Append(f.Raw)
	if err := l.toClient.Flush(); err != nil {
		return &ClientError{err}
	}
	return &BackendError{fields}
}

// hold keeps a frame for the client.
func (l *login) hold(f Frame) error {
	if len(l.result.Frames)+len(f.Raw) > loginFramesBytesMax {
		return backendFailed(fmt.Errorf("more than %d bytes of ParameterStatus and notices", loginFramesBytesMax))
	}
	l.result.Frames = append(l.result.Frames, f.Raw...)
	return nil
}

func (l *login) parameterStatus(f Frame) error {
	name, value, err := DecodeParameterStatus(f.Body())
	if err != nil {
		return backendFailed(err)
	}
	l.result.Status[name] = value
	return l.hold(f)
}

func (l *login) keyData(f Frame) error {
	pid, secret, err := DecodeBackendKeyData(f.Body())
	if err != nil {
		return backendFailed(err)
	}
	l.result.BackendPID, l.result.BackendSecret = pid, bytes.Clone(secret)
	return nil
}

func (l *login) ready(f Frame) error {
	status, err := DecodeReadyForQuery(f.Body())
	if err != nil {
		return backendFailed(err)
	}
	l.result.TxStatus = status
	return l.flushClient()
}

func (l *login) flushClient() error {
	if err := l.toClient.Flush(); err != nil {
		return &ClientError{err}
	}
	return nil
}

// refuse tells the client why, unless it knows or cannot hear.
func (l *login) refuse(err error) error {
	var e *SQLError
	switch t := err.(type) {
	case *BackendError:
		return err
	case *ClientError:
		e = toClient(t.Err)
		if e == nil && isTimeout(t.Err) && l.toClient.Len() == 0 {
			e = Fatalf(CodeQueryCanceled, "canceling authentication due to timeout")
		}
	default:
		e = toClient(err)
	}
	if e != nil && l.toClient.Err() == nil {
		// A client that does not take its last words changes nothing for the
		// caller, who closes the connection.
		_ = l.client.Refuse(e)
	}
	return err
}
