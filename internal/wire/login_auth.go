package wire

import (
	"errors"
	"fmt"
	"slices"
)

// mechanismScram is the only SASL mechanism that is relayed. SCRAM-SHA-256-PLUS
// binds to a TLS channel and the relay is two channels; others (OAUTHBEARER)
// would show this process a credential that works elsewhere.
const mechanismScram = "SCRAM-SHA-256"

// authentication handles one Authentication message of the server.
func (l *login) authentication(f Frame) error {
	code, rest, err := DecodeAuthentication(f.Body())
	if err != nil {
		return backendFailed(err)
	}
	switch code {
	case AuthOk:
		return l.admitted(f)
	case AuthCleartextPassword:
		return l.relay(ProofPassword, f.Raw, passwordLimits)
	case AuthMD5Password:
		if len(rest) != 4 {
			return backendFailed(badMessage("invalid salt in AuthenticationMD5Password"))
		}
		return l.relay(ProofMD5, f.Raw, passwordLimits)
	case AuthSASL:
		return l.offerSASL(rest)
	case AuthSASLContinue:
		if l.offered == nil {
			return unexpected(f)
		}
		return l.relay(ProofSCRAM, f.Raw, saslLimits)
	case AuthSASLFinal:
		if l.offered == nil {
			return unexpected(f)
		}
		l.toClient.Append(f.Raw)
		return nil
	}
	return Fatalf(CodeFeatureNotSupported, "the local PostgreSQL asks for %s authentication, which cannot be relayed",
		methodName(code)).
		WithHint("Use scram-sha-256 for this role in the local lines of pg_hba.conf.")
}

func methodName(code uint32) string {
	switch code {
	case AuthKerberosV5:
		return "Kerberos V5"
	case AuthGSS, AuthGSSContinue:
		return "GSSAPI"
	case AuthSSPI:
		return "SSPI"
	}
	return fmt.Sprintf("unknown (code %d)", code)
}

// admitted handles AuthenticationOk.
func (l *login) admitted(f Frame) error {
	if l.result.Proof == ProofNone && l.options.Require > ProofNone {
		return l.weak(ProofNone)
	}
	if l.result.Proof == ProofNone && !l.options.AllowTrust {
		return Fatalf(CodeInvalidAuthorization, "role %q was admitted by the local PostgreSQL without authentication",
			l.client.Params["user"]).
			WithDetail("The local line of pg_hba.conf says trust or peer, which would admit every client of this " +
				"member.").
			WithHint("Use scram-sha-256 for this role in the local lines of pg_hba.conf, or allow trust in the " +
				"member's configuration.")
	}
	l.ok = true
	l.toClient.Append(f.Raw)
	return nil
}

// weak refuses what proves less than is required.
func (l *login) weak(p Proof) error {
	return Fatalf(CodeInvalidAuthorization, "role %q is admitted by the local PostgreSQL by method %s, where %s is "+
		"required", l.client.Params["user"], p, l.options.Require).
		WithDetail("The rules for clients (hba_file) require it of this client.").
		WithHint("Use %s for this role in the local lines of PostgreSQL's own pg_hba.conf.", l.options.Require)
}

// relay asks the client for a proof and passes its answer on.
func (l *login) relay(p Proof, question []byte, limits Limits) error {
	if p < l.options.Require {
		return l.weak(p) // before the client has shown anything
	}
	answer, err := l.ask(p, question, limits)
	if err != nil {
		return err
	}
	l.toBackend.Append(answer.Raw)
	return nil
}

func (l *login) ask(p Proof, question []byte, limits Limits) (Frame, error) {
	l.toClient.Append(question)
	if err := l.flushClient(); err != nil {
		return Frame{}, err
	}
	l.client.Reader.SetLimits(limits)
	f, err := l.client.Reader.Next()
	if err != nil {
		return Frame{}, &ClientError{err}
	}
	l.result.Proof = p
	return f, nil
}

// offerSASL offers the server's mechanisms but those that cannot be relayed,
// and checks what the client chose.
func (l *login) offerSASL(rest []byte) error {
	names, err := DecodeSASLMechanisms(rest)
	if err != nil {
		return backendFailed(err)
	}
	if l.offered != nil {
		return backendFailed(errors.New("the server began SASL twice"))
	}
	l.offered = relayable(names)
	if len(l.offered) == 0 {
		return Fatalf(CodeFeatureNotSupported, "the local PostgreSQL offers no SASL mechanism that can be relayed").
			WithDetail("It offers %q; %s is needed.", names, mechanismScram)
	}
	answer, err := l.ask(ProofSCRAM, AppendAuthenticationSASL(nil, l.offered), saslLimits)
	if err != nil {
		return err
	}
	if err := checkSASLChoice(answer.Body(), l.offered); err != nil {
		return &ClientError{err}
	}
	l.toBackend.Append(answer.Raw)
	return nil
}

// relayable returns the mechanisms that survive a relay.
func relayable(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n != mechanismScram })
}

// checkSASLChoice refuses a mechanism that was not offered, and channel
// binding. The GS2 flag 'y' ("the server does not support it") passes: the
// local server is not on TLS and agrees.
func checkSASLChoice(body []byte, offered []string) error {
	mechanism, data, err := DecodeSASLInitialResponse(body)
	if err != nil {
		return err
	}
	if !slices.Contains(offered, mechanism) {
		return fatalProtocol("client selected an invalid SASL authentication mechanism")
	}
	if len(data) > 0 && data[0] == 'p' {
		e := fatalProtocol("malformed SCRAM message")
		e.Detail = "The client selected SCRAM-SHA-256 without channel binding, but the SCRAM message includes " +
			"channel binding data."
		return e
	}
	return nil
}
