package drivers

import (
	"crypto/hmac"
	"crypto/md5"
	"crypto/pbkdf2"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"
)

// scram is what PostgreSQL keeps of a password: a statement with the password itself would be
// salted by each member anew, and is refused.
func scram(password string) string {
	const rounds = 4096
	salt := []byte("sixteen bytes it")
	salted, err := pbkdf2.Key(sha256.New, password, salt, rounds, sha256.Size)
	if err != nil {
		panic(err) // only of lengths
	}
	mac := func(what string) []byte {
		h := hmac.New(sha256.New, salted)
		h.Write([]byte(what))
		return h.Sum(nil)
	}
	stored := sha256.Sum256(mac("Client Key"))
	b64 := base64.StdEncoding.EncodeToString
	return fmt.Sprintf("SCRAM-SHA-256$%d:%s$%s:%s", rounds, b64(salt), b64(stored[:]), b64(mac("Server Key")))
}

// oldVerifier is the same of the old kind.
func oldVerifier(user, password string) string {
	return fmt.Sprintf("md5%x", md5.Sum([]byte(password+user)))
}

// createRole makes a role with a verifier; more is what else it may do.
func createRole(user, verifier, more string) string {
	return fmt.Sprintf(`CREATE ROLE "%s" LOGIN %s PASSWORD '%s'`, strings.ReplaceAll(user, `"`, `""`), more, verifier)
}
