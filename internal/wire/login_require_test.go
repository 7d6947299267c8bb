package wire

import (
	"errors"
	"strings"
	"testing"
)

// TestLoginRequires: a client that a rule lets in for a proof is not let in for less, whatever the local PostgreSQL
// says, and has shown nothing until then.
func TestLoginRequires(t *testing.T) {
	clear, md5, sasl := AppendAuthenticationCleartextPassword(nil),
		AppendAuthenticationMD5Password(nil, [4]byte{1, 2, 3,
			4}), AppendAuthenticationSASL(nil, []string{mechanismScram})
	for _, c := range []struct {
		require  Proof
		question []byte
		refused  string // by which method; empty: it is asked
	}{
		{ProofSCRAM, AppendAuthenticationOk(nil), "trust"}, {ProofSCRAM, clear, "password"}, {ProofSCRAM, md5, "md5"},
		{ProofSCRAM, sasl, ""},
		{ProofMD5, AppendAuthenticationOk(nil), "trust"}, {ProofMD5, clear, "password"}, {ProofMD5, md5, ""}, {ProofMD5,
			sasl, ""},
		{ProofPassword, AppendAuthenticationOk(nil), "trust"}, {ProofPassword, clear, ""},
	} {
		s := startLogin(t, 0, LoginOptions{AllowTrust: true, Require: c.require}, nil)
		s.backend.Write(c.question)
		if c.refused == "" {
			s.clientGets(c.question)
			continue
		}
		var e *SQLError
		err := s.fails("28000",
			`role "u" is admitted by the local PostgreSQL by method `+c.refused+", where "+c.require.String()+
				" is required")
		if !errors.As(err, &e) || !strings.Contains(e.Hint, c.require.String()) {
			t.Errorf("%v: %v", c.require, err)
		}
	}
}
