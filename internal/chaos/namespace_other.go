//go:build !linux

package chaos

import "errors"

func newNetwork(o *Options) (network, error) {
	if o.Netns {
		return nil, errors.New("--netns needs Linux")
	}
	return newLoopback(o)
}
