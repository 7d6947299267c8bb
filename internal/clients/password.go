package clients

import (
	"crypto/hmac"
	"crypto/md5"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
)

// Of PostgreSQL's verifiers (RFC 5802; src/common/scram-common.c).
const (
	scramIterations = 4096
	scramSalt       = 16 // bytes
)

// Verifier makes of a password what PostgreSQL would store.
func Verifier(password, role string, useMD5 bool) string {
	if useMD5 {
		sum := md5.Sum([]byte(password + role))
		return "md5" + hex.EncodeToString(sum[:])
	}
	salt := make([]byte, scramSalt)
	_, _ = rand.Read(salt) // it never fails
	return scramVerifier(password, salt)
}

// scramVerifier is that of SCRAM-SHA-256.
func scramVerifier(password string, salt []byte) string {
	salted, err := pbkdf2.Key(sha256.New, password, salt, scramIterations, sha256.Size)
	if err != nil {
		panic("clients: " + err.Error()) // only a key that is too long is refused
	}
	sign := func(key []byte, text string) []byte {
		m := hmac.New(sha256.New, key)
		m.Write([]byte(text))
		return m.Sum(nil)
	}
	stored := sha256.Sum256(sign(salted, "Client Key"))
	base := base64.StdEncoding.EncodeToString
	return fmt.Sprintf("SCRAM-SHA-256$%d:%s$%s:%s", scramIterations, base(salt), base(stored[:]),
		base(sign(salted, "Server Key")))
}
