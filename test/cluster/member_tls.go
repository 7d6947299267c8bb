package cluster

import (
	"sync"

	"github.com/tuttidb/tutti/internal/authority"
	"github.com/tuttidb/tutti/internal/config"
)

// memberAuthority is made once per process and issues the certificates of all clusters' members.
var memberAuthority = sync.OnceValues(func() (*authority.Authority, error) { return authority.New("tests") })

// memberTLS gives the member of this name a certificate in dir.
func memberTLS(dir, name string) (config.MemberTLS, error) {
	ca, err := memberAuthority()
	if err != nil {
		return config.MemberTLS{}, err
	}
	files, err := ca.Write(dir, name, authority.Years(1))
	return config.MemberTLS(files), err
}
