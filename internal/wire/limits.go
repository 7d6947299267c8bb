package wire

// Limits on length words, which count themselves but not the type byte, as
// PostgreSQL sets them (src/include/libpq/libpq.h, src/backend/libpq/auth.c).
const (
	smallMessageBytesMax   = 10_000         // PQ_SMALL_MESSAGE_LIMIT
	largeMessageBytesMax   = 0x3fffffff - 1 // PQ_LARGE_MESSAGE_LIMIT, 1 GiB − 2
	backendMessageBytesMax = 0x3fffffff + 4 // MaxAllocSize of body
	passwordBytesMax       = 65_535         // PG_MAX_AUTH_TOKEN_LENGTH
	saslBytesMax           = 1_024          // PG_MAX_SASL_MESSAGE_LENGTH
	startupBytesMax        = 10_000         // MAX_STARTUP_PACKET_LENGTH, without the length word
	cancelKeyBytesMax      = 256
	preAuthBytesMax        = 64 << 10 // all bytes read from an unauthenticated client

	loginAuthBytesMax   = 2_000     // one Authentication message, as libpq
	loginOtherBytesMax  = 64 << 10  // one other message of the server's greeting
	loginFramesBytesMax = 256 << 10 // LoginResult.Frames
)

// Limits says which message types a peer may send and how long each may be.
// The zero value allows nothing. Limits are immutable and may be shared.
type Limits struct {
	max     *[256]uint32 // by type; 0: unknown type
	unknown string       // message for an unknown type, with one %d
}

// of returns the largest length word for type t; 0: t is unknown.
func (l Limits) of(t byte) uint32 {
	if l.max == nil {
		return 0
	}
	return l.max[t]
}

// Capped returns l with no length word above max bytes.
func (l Limits) Capped(max uint32) Limits {
	if l.max == nil {
		return l
	}
	c := *l.max
	for i := range c {
		c[i] = min(c[i], max)
	}
	return Limits{&c, l.unknown}
}

func makeLimits(unknown string, byMax map[uint32]string) Limits {
	l := Limits{max: new([256]uint32), unknown: unknown}
	for max, types := range byMax {
		for i := range len(types) {
			l.max[types[i]] = max
		}
	}
	return l
}

var (
	frontendLimits = makeLimits("invalid frontend message type %d", map[uint32]string{
		smallMessageBytesMax: "CDEHSXcf",
		largeMessageBytesMax: "QPBFd",
	})
	backendLimits = makeLimits("invalid backend message type %d", map[uint32]string{
		backendMessageBytesMax: "RKSZCDTt123nsIENAGHWdcVv",
	})
	passwordLimits = makeLimits("expected password response, got message type %d",
		map[uint32]string{passwordBytesMax: "p"})
	saslLimits  = makeLimits("expected SASL response, got message type %d", map[uint32]string{saslBytesMax: "p"})
	loginLimits = makeLimits("unexpected backend message type %d during start-up", map[uint32]string{
		loginAuthBytesMax:  "R",
		loginOtherBytesMax: "ENSKZv",
	})
)

// FrontendLimits are PostgreSQL's own limits for an authenticated client.
func FrontendLimits() Limits { return frontendLimits }

// BackendLimits accept every message a PostgreSQL server sends.
func BackendLimits() Limits { return backendLimits }
