package wire

import (
	"strconv"
	"strings"
)

// Messages a server sends.

// Codes in Authentication messages.
const (
	AuthOk                = 0
	AuthKerberosV5        = 2
	AuthCleartextPassword = 3
	AuthMD5Password       = 5
	AuthGSS               = 7
	AuthGSSContinue       = 8
	AuthSSPI              = 9
	AuthSASL              = 10
	AuthSASLContinue      = 11
	AuthSASLFinal         = 12
)

func auth(dst []byte, code uint32, rest []byte) []byte {
	dst, start := begin(dst, TypeAuthentication)
	return finish(append(u32(dst, code), rest...), start)
}

// AppendAuthenticationOk appends an AuthenticationOk.
func AppendAuthenticationOk(dst []byte) []byte { return auth(dst, AuthOk, nil) }

// AppendAuthenticationCleartextPassword asks for the password in the clear.
func AppendAuthenticationCleartextPassword(dst []byte) []byte {
	return auth(dst, AuthCleartextPassword, nil)
}

// AppendAuthenticationMD5Password asks for an MD5 password with this salt.
func AppendAuthenticationMD5Password(dst []byte, salt [4]byte) []byte {
	return auth(dst, AuthMD5Password, salt[:])
}

// AppendAuthenticationSASL offers SASL mechanisms, the preferred one first.
func AppendAuthenticationSASL(dst []byte, mechanisms []string) []byte {
	dst, start := begin(dst, TypeAuthentication)
	dst = u32(dst, AuthSASL)
	for _, m := range mechanisms {
		if m == "" {
			panic("wire: SASL mechanism without a name")
		}
		dst = str(dst, m)
	}
	return finish(append(dst, 0), start)
}

// AppendAuthenticationSASLContinue appends a SASL challenge.
func AppendAuthenticationSASLContinue(dst, data []byte) []byte {
	return auth(dst, AuthSASLContinue, data)
}

// AppendAuthenticationSASLFinal appends the outcome data of SASL.
func AppendAuthenticationSASLFinal(dst, data []byte) []byte {
	return auth(dst, AuthSASLFinal, data)
}

// AppendNegotiateProtocolVersion says that protocol 3.minor will be spoken and
// which protocol options of the client are unknown.
func AppendNegotiateProtocolVersion(dst []byte, minor uint16, unknownOptions []string) []byte {
	dst, start := begin(dst, TypeNegotiateProtocolVersion)
	dst = u32(u32(dst, 3<<16|uint32(minor)), uint32(len(unknownOptions)))
	for _, o := range unknownOptions {
		dst = str(dst, o)
	}
	return finish(dst, start)
}

// AppendBackendKeyData appends a BackendKeyData.
func AppendBackendKeyData(dst []byte, pid uint32, secret []byte) []byte {
	dst, start := begin(dst, TypeBackendKeyData)
	return finish(append(u32(dst, pid), secret...), start)
}

// AppendParameterStatus appends a ParameterStatus.
func AppendParameterStatus(dst []byte, name, value string) []byte {
	dst, start := begin(dst, TypeParameterStatus)
	return finish(str(str(dst, name), value), start)
}

// AppendReadyForQuery appends a ReadyForQuery; status is TxIdle, TxActive or
// TxFailed.
func AppendReadyForQuery(dst []byte, status byte) []byte {
	return append(dst, TypeReadyForQuery, 0, 0, 0, 5, status)
}

// AppendCommandComplete appends a CommandComplete.
func AppendCommandComplete(dst []byte, tag string) []byte {
	dst, start := begin(dst, TypeCommandComplete)
	return finish(str(dst, tag), start)
}

// AppendParseComplete appends a ParseComplete.
func AppendParseComplete(dst []byte) []byte { return empty(dst, TypeParseComplete) }

// AppendBindComplete appends a BindComplete.
func AppendBindComplete(dst []byte) []byte { return empty(dst, TypeBindComplete) }

// AppendCloseComplete appends a CloseComplete.
func AppendCloseComplete(dst []byte) []byte { return empty(dst, TypeCloseComplete) }

// AppendNoData appends a NoData.
func AppendNoData(dst []byte) []byte { return empty(dst, TypeNoData) }

// AppendPortalSuspended appends a PortalSuspended.
func AppendPortalSuspended(dst []byte) []byte { return empty(dst, TypePortalSuspended) }

// AppendEmptyQueryResponse appends an EmptyQueryResponse.
func AppendEmptyQueryResponse(dst []byte) []byte { return empty(dst, TypeEmptyQueryResponse) }

// AppendParameterDescription appends a ParameterDescription.
func AppendParameterDescription(dst []byte, oids []uint32) []byte {
	dst, start := begin(dst, TypeParameterDescription)
	dst = count(dst, len(oids))
	for _, oid := range oids {
		dst = u32(dst, oid)
	}
	return finish(dst, start)
}

// Column describes one column of a result.
type Column struct {
	Name     string
	TableOID uint32
	Attr     uint16
	TypeOID  uint32
	TypeLen  int16
	TypeMod  int32
	Format   int16 // 0 text, 1 binary
}

// OIDText is the type text.
const OIDText = 25

// TextColumn is a column of type text in text format.
func TextColumn(name string) Column {
	return Column{Name: name, TypeOID: OIDText, TypeLen: -1, TypeMod: -1}
}

// AppendRowDescription appends a RowDescription.
func AppendRowDescription(dst []byte, columns []Column) []byte {
	dst, start := begin(dst, TypeRowDescription)
	dst = count(dst, len(columns))
	for _, c := range columns {
		dst = u16(u32(str(dst, c.Name), c.TableOID), c.Attr)
		dst = u16(u32(dst, c.TypeOID), uint16(c.TypeLen))
		dst = u16(u32(dst, uint32(c.TypeMod)), uint16(c.Format))
	}
	return finish(dst, start)
}

// AppendDataRow appends a DataRow; a nil value is NULL.
func AppendDataRow(dst []byte, values [][]byte) []byte {
	dst, start := begin(dst, TypeDataRow)
	dst = count(dst, len(values))
	for _, v := range values {
		dst = value(dst, v)
	}
	return finish(dst, start)
}

// AppendTextRow appends a DataRow of texts, none of them NULL.
func AppendTextRow(dst []byte, values ...string) []byte {
	dst, start := begin(dst, TypeDataRow)
	dst = count(dst, len(values))
	for _, v := range values {
		if len(v) > backendMessageBytesMax {
			panic("wire: value above 1 GiB")
		}
		dst = append(u32(dst, uint32(len(v))), v...)
	}
	return finish(dst, start)
}

// AppendErrorResponse appends an ErrorResponse. A field is cut at a zero byte.
func AppendErrorResponse(dst []byte, f ErrorFields) []byte {
	return appendFields(dst, TypeErrorResponse, f)
}

// AppendNoticeResponse appends a NoticeResponse. A field is cut at a zero byte.
func AppendNoticeResponse(dst []byte, f ErrorFields) []byte {
	return appendFields(dst, TypeNoticeResponse, f)
}

func appendFields(dst []byte, typ byte, f ErrorFields) []byte {
	dst, start := begin(dst, typ)
	if f.SeverityUnlocalized == "" {
		f.SeverityUnlocalized = f.Severity
	}
	dst = field(dst, 'S', f.Severity)
	dst = field(dst, 'V', f.SeverityUnlocalized)
	dst = field(dst, 'C', f.Code)
	dst = field(dst, 'M', f.Message)
	dst = field(dst, 'D', f.Detail)
	dst = field(dst, 'H', f.Hint)
	dst = number(dst, 'P', f.Position)
	dst = number(dst, 'p', f.InternalPosition)
	dst = field(dst, 'q', f.InternalQuery)
	dst = field(dst, 'W', f.Where)
	dst = field(dst, 's', f.Schema)
	dst = field(dst, 't', f.Table)
	dst = field(dst, 'c', f.Column)
	dst = field(dst, 'd', f.DataType)
	dst = field(dst, 'n', f.Constraint)
	dst = field(dst, 'F', f.File)
	dst = number(dst, 'L', f.Line)
	dst = field(dst, 'R', f.Routine)
	return finish(append(dst, 0), start)
}

func field(dst []byte, key byte, s string) []byte {
	if i := strings.IndexByte(s, 0); i >= 0 {
		s = s[:i]
	}
	if s == "" {
		return dst
	}
	return append(append(append(dst, key), s...), 0)
}

func number(dst []byte, key byte, n int32) []byte {
	if n == 0 {
		return dst
	}
	return append(strconv.AppendInt(append(dst, key), int64(n), 10), 0)
}
