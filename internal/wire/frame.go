package wire

// Frame is one whole message as it travels: a type byte, a 4-byte big-endian
// length that counts itself but not the type, and the body.
type Frame struct {
	Type byte
	Raw  []byte
}

// Body returns the frame without type and length. It aliases Raw.
func (f Frame) Body() []byte { return f.Raw[HeaderBytes:] }

// Header announces the frame that comes next.
type Header struct {
	Type byte
	Len  int // bytes of the whole frame, type byte and length word included
}

// HeaderBytes is the size of type byte and length word.
const HeaderBytes = 5

// Types of frontend messages.
const (
	TypeBind         = 'B'
	TypeClose        = 'C'
	TypeCopyFail     = 'f'
	TypeDescribe     = 'D'
	TypeExecute      = 'E'
	TypeFlush        = 'H'
	TypeFunctionCall = 'F'
	TypeParse        = 'P'
	TypePassword     = 'p' // also SASLInitialResponse, SASLResponse, GSSResponse
	TypeQuery        = 'Q'
	TypeSync         = 'S'
	TypeTerminate    = 'X'
)

// Types of messages that both sides send.
const (
	TypeCopyData = 'd'
	TypeCopyDone = 'c'
)

// Types of backend messages.
const (
	TypeAuthentication           = 'R'
	TypeBackendKeyData           = 'K'
	TypeBindComplete             = '2'
	TypeCloseComplete            = '3'
	TypeCommandComplete          = 'C'
	TypeCopyBothResponse         = 'W'
	TypeCopyInResponse           = 'G'
	TypeCopyOutResponse          = 'H'
	TypeDataRow                  = 'D'
	TypeEmptyQueryResponse       = 'I'
	TypeErrorResponse            = 'E'
	TypeFunctionCallResponse     = 'V'
	TypeNegotiateProtocolVersion = 'v'
	TypeNoData                   = 'n'
	TypeNoticeResponse           = 'N'
	TypeNotificationResponse     = 'A'
	TypeParameterDescription     = 't'
	TypeParameterStatus          = 'S'
	TypeParseComplete            = '1'
	TypePortalSuspended          = 's'
	TypeReadyForQuery            = 'Z'
	TypeRowDescription           = 'T'
)

// Transaction states in ReadyForQuery.
const (
	TxIdle   = 'I'
	TxActive = 'T'
	TxFailed = 'E'
)
