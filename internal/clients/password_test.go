package clients

import (
	"encoding/base64"
	"testing"
)

// TestScramVerifier: the example of RFC 7677.
func TestScramVerifier(t *testing.T) {
	salt, err := base64.StdEncoding.DecodeString("W22ZaJ0SNY7soEsUEjb6gQ==")
	if err != nil {
		t.Fatal(err)
	}
	const want = "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="
	if got := scramVerifier("pencil", salt); got != want {
		t.Errorf("%s\nshould be %s", got, want)
	}
	if got := Verifier("role_pwd1", "regress_passwd1", true); got != "md5783277baca28003b33453252be4dbb34" {
		t.Errorf("MD5: %s", got)
	}
}
