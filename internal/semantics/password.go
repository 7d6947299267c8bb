package semantics

import (
	"encoding/base64"
	"strconv"
	"strings"
	"unicode/utf8"

	pg "github.com/pganalyze/pg_query_go/v6"
)

// Password is a clear-text password in a definition of a role. Each member would salt it differently, and the
// text would stand in every log, so the session puts a verifier in its place.
type Password struct {
	Clear    string
	Role     string // its name, empty where the statement does not say it
	from, to int    // bytes of its literal in the statement's text
}

// Veiled is the statement's text with a verifier in the place of the password.
func (s *Statement) Veiled(verifier string) string {
	return s.Text[:s.Password.from] + "'" + strings.ReplaceAll(verifier, "'", "''") + "'" + s.Text[s.Password.to:]
}

// role is CREATE or ALTER ROLE. An empty password is the same everywhere: PostgreSQL stores none.
func role(name string, options []*pg.Node) Statement {
	s := Statement{Kind: Definition, Quiet: true}
	for _, o := range options {
		if d := o.GetDefElem(); d.GetDefname() == "password" {
			if text, ok := stringConst(d.Arg); ok && text != "" && !verifies(text) {
				s.Password = &Password{Clear: text, Role: name}
			}
		}
	}
	return s
}

// locate finds the password in the statement's text. What cannot be found there, or may have more than one
// form in Unicode, is refused.
func (s *Statement) locate() {
	scan, err := pg.Scan(ascii(s.Text))
	after := false
	for i := 0; err == nil && i < len(scan.Tokens); i++ {
		t := scan.Tokens[i]
		if after && t.Token == pg.Token_SCONST && s.Password.to == 0 {
			s.Password.from, s.Password.to = int(t.Start), int(t.End)
		}
		after = t.Token == pg.Token_PASSWORD
	}
	plain := !strings.ContainsFunc(s.Password.Clear,
		func(r rune) bool { return r < ' ' || r >= 0x7f && r <= utf8.MaxRune })
	if s.Password.to == 0 || !plain {
		text, before := s.Text, s.Before
		*s = refuse("this clear-text password cannot be replicated",
			"Give the SCRAM-SHA-256 verifier instead, as psql's \\password does, or use characters of ASCII.")
		s.Text, s.Before = text, before
	}
}

// verifies reports whether PostgreSQL stores a password as it is: it is an MD5 or SCRAM verifier.
func verifies(text string) bool {
	if rest, ok := strings.CutPrefix(text, "md5"); ok && len(rest) == 32 &&
		strings.Trim(rest, "0123456789abcdef") == "" {
		return true
	}
	rest, ok := strings.CutPrefix(text, "SCRAM-SHA-256$")
	iterations, rest, ok1 := strings.Cut(rest, ":")
	salt, rest, ok2 := strings.Cut(rest, "$")
	stored, server, ok3 := strings.Cut(rest, ":")
	if _, err := strconv.ParseUint(iterations, 10, 31); err != nil || !ok || !ok1 || !ok2 || !ok3 ||
		strings.ContainsAny(text, "\r\n") {
		return false
	}
	decoded := func(s string) int {
		b, err := base64.StdEncoding.DecodeString(s)
		if err != nil {
			return -1
		}
		return len(b)
	}
	const key = 32
	return decoded(salt) >= 0 && decoded(stored) == key && decoded(server) == key
}
