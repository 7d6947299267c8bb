package wire

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
)

type encoder interface {
	Encode(dst []byte) ([]byte, error)
}

func oracle(t testing.TB, m encoder) []byte {
	t.Helper()
	b, err := m.Encode(nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

var allFields = ErrorFields{
	Severity: "FEHLER", SeverityUnlocalized: "ERROR", Code: "40001", Message: "m", Detail: "d", Hint: "h",
	Position: 7, InternalPosition: 8, InternalQuery: "q", Where: "w", Schema: "s", Table: "t", Column: "c",
	DataType: "dt", Constraint: "co", File: "f.c", Line: 99, Routine: "r",
}

var allFieldsOracle = pgproto3.ErrorResponse{
	Severity: "FEHLER", SeverityUnlocalized: "ERROR", Code: "40001", Message: "m", Detail: "d", Hint: "h",
	Position: 7, InternalPosition: 8, InternalQuery: "q", Where: "w", SchemaName: "s", TableName: "t", ColumnName: "c",
	DataTypeName: "dt", ConstraintName: "co", File: "f.c", Line: 99, Routine: "r",
}

// goldenColumns and goldenFields are the same columns for both sides.
var (
	goldenColumns = []Column{{"id", 16384, 1, 23, 4, -1, 1}, TextColumn("name")}
	goldenFields  = []pgproto3.FieldDescription{
		{Name: []byte("id"), TableOID: 16384, TableAttributeNumber: 1, DataTypeOID: 23, DataTypeSize: 4,
			TypeModifier: -1, Format: 1},
		{Name: []byte("name"), DataTypeOID: 25, DataTypeSize: -1, TypeModifier: -1},
	}
)

// Every builder writes what pgproto3 writes.
func TestAppendMatchesPgproto3(t *testing.T) {
	notice := pgproto3.NoticeResponse(allFieldsOracle)
	values := [][]byte{[]byte("1"), nil, {}}
	for _, c := range []struct {
		name string
		got  []byte
		want encoder
	}{
		{"ReadyForQuery", AppendReadyForQuery(nil, TxActive), &pgproto3.ReadyForQuery{TxStatus: 'T'}},
		{"CommandComplete", AppendCommandComplete(nil, "UPDATE 3"),
			&pgproto3.CommandComplete{CommandTag: []byte("UPDATE 3")}},
		{"ErrorResponse", AppendErrorResponse(nil, allFields), &allFieldsOracle},
		{"NoticeResponse", AppendNoticeResponse(nil, allFields), &notice},
		{"ParseComplete", AppendParseComplete(nil), &pgproto3.ParseComplete{}},
		{"BindComplete", AppendBindComplete(nil), &pgproto3.BindComplete{}},
		{"CloseComplete", AppendCloseComplete(nil), &pgproto3.CloseComplete{}},
		{"NoData", AppendNoData(nil), &pgproto3.NoData{}},
		{"PortalSuspended", AppendPortalSuspended(nil), &pgproto3.PortalSuspended{}},
		{"EmptyQueryResponse", AppendEmptyQueryResponse(nil), &pgproto3.EmptyQueryResponse{}},
		{"ParameterDescription", AppendParameterDescription(nil, []uint32{23, 25}),
			&pgproto3.ParameterDescription{ParameterOIDs: []uint32{23, 25}}},
		{"RowDescription", AppendRowDescription(nil, goldenColumns), &pgproto3.RowDescription{Fields: goldenFields}},
		{"DataRow", AppendDataRow(nil, values), &pgproto3.DataRow{Values: values}},
		{"TextRow", AppendTextRow(nil, "a", ""), &pgproto3.DataRow{Values: [][]byte{[]byte("a"), {}}}},
		{"ParameterStatus", AppendParameterStatus(nil, "TimeZone", "UTC"),
			&pgproto3.ParameterStatus{Name: "TimeZone", Value: "UTC"}},
		{"BackendKeyData", AppendBackendKeyData(nil, 7, []byte("secretkey")),
			&pgproto3.BackendKeyData{ProcessID: 7, SecretKey: []byte("secretkey")}},
		{"NegotiateProtocolVersion", AppendNegotiateProtocolVersion(nil, 2, []string{"_pq_.x"}),
			&pgproto3.NegotiateProtocolVersion{NewestMinorProtocol: 3<<16 | 2,
				UnrecognizedOptions: []string{"_pq_.x"}}},
		{"AuthenticationOk", AppendAuthenticationOk(nil), &pgproto3.AuthenticationOk{}},
		{"Cleartext", AppendAuthenticationCleartextPassword(nil), &pgproto3.AuthenticationCleartextPassword{}},
		{"MD5", AppendAuthenticationMD5Password(nil, [4]byte{1, 2, 3, 4}),
			&pgproto3.AuthenticationMD5Password{Salt: [4]byte{1, 2, 3, 4}}},
		{"SASL", AppendAuthenticationSASL(nil, []string{"A", "B"}),
			&pgproto3.AuthenticationSASL{AuthMechanisms: []string{"A", "B"}}},
		{"SASLContinue", AppendAuthenticationSASLContinue(nil, []byte("x")),
			&pgproto3.AuthenticationSASLContinue{Data: []byte("x")}},
		{"SASLFinal", AppendAuthenticationSASLFinal(nil, []byte("x")),
			&pgproto3.AuthenticationSASLFinal{Data: []byte("x")}},

		{"Query", AppendQuery(nil, "select 1"), &pgproto3.Query{String: "select 1"}},
		{"Parse", AppendParse(nil, "s", "select $1", []uint32{23}),
			&pgproto3.Parse{Name: "s", Query: "select $1", ParameterOIDs: []uint32{23}}},
		{"Bind", AppendBind(nil, "p", "s", []int16{1, 0, 0}, values, []int16{1}),
			&pgproto3.Bind{DestinationPortal: "p", PreparedStatement: "s", ParameterFormatCodes: []int16{1, 0, 0},
				Parameters: values, ResultFormatCodes: []int16{1}}},
		{"Describe", AppendDescribe(nil, 'S', "s"), &pgproto3.Describe{ObjectType: 'S', Name: "s"}},
		{"Close", AppendClose(nil, 'P', "p"), &pgproto3.Close{ObjectType: 'P', Name: "p"}},
		{"Execute", AppendExecute(nil, "p", 5), &pgproto3.Execute{Portal: "p", MaxRows: 5}},
		{"Sync", AppendSync(nil), &pgproto3.Sync{}},
		{"Flush", AppendFlush(nil), &pgproto3.Flush{}},
		{"Terminate", AppendTerminate(nil), &pgproto3.Terminate{}},
		{"CopyData", AppendCopyData(nil, []byte("a\tb\n")), &pgproto3.CopyData{Data: []byte("a\tb\n")}},
		{"CopyDone", AppendCopyDone(nil), &pgproto3.CopyDone{}},
		{"CopyFail", AppendCopyFail(nil, "no"), &pgproto3.CopyFail{Message: "no"}},
		{"Password", AppendPasswordMessage(nil, "pw"), &pgproto3.PasswordMessage{Password: "pw"}},
		{"SASLInitialResponse", AppendSASLInitialResponse(nil, "M", []byte("n,,")),
			&pgproto3.SASLInitialResponse{AuthMechanism: "M", Data: []byte("n,,")}},
		{"SASLResponse", AppendSASLResponse(nil, []byte("c=")), &pgproto3.SASLResponse{Data: []byte("c=")}},
		{"Startup", AppendStartup(nil, 3, 2, []Param{{"user", "u"}}),
			&pgproto3.StartupMessage{ProtocolVersion: 3<<16 | 2, Parameters: map[string]string{"user": "u"}}},
		{"SSLRequest", AppendSSLRequest(nil), &pgproto3.SSLRequest{}},
		{"GSSENCRequest", AppendGSSENCRequest(nil), &pgproto3.GSSEncRequest{}},
		{"CancelRequest", AppendCancelRequest(nil, 7, []byte("12345678")),
			&pgproto3.CancelRequest{ProcessID: 7, SecretKey: []byte("12345678")}},
	} {
		if want := oracle(t, c.want); !bytes.Equal(c.got, want) {
			t.Errorf("%s:\n got %q\nwant %q", c.name, c.got, want)
		}
	}
}

// Builders extend dst and leave what was there.
func TestAppendExtends(t *testing.T) {
	b := AppendParseComplete([]byte("before"))
	b = AppendErrorResponse(b, ErrorFields{Severity: "ERROR", Code: "XX000", Message: "a\x00b"})
	want := append([]byte("before1\x00\x00\x00\x04"), oracle(t, &pgproto3.ErrorResponse{
		Severity: "ERROR", SeverityUnlocalized: "ERROR", Code: "XX000", Message: "a"})...)
	if !bytes.Equal(b, want) {
		t.Fatalf("got %q, want %q", b, want)
	}
}

func must[T any](t testing.TB) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: got %#v, want %#v", what, got, want)
	}
}

func body(t testing.TB, m encoder) []byte { return oracle(t, m)[HeaderBytes:] }

func TestDecodeFrontend(t *testing.T) {
	sql, err := DecodeQuery(body(t, &pgproto3.Query{String: "select 1"}))
	equal(t, "query", []any{sql, err}, []any{"select 1", error(nil)})

	p := must[Parse](t)(DecodeParse(body(t, &pgproto3.Parse{Name: "n", Query: "q", ParameterOIDs: []uint32{20, 0}})))
	equal(t, "parse", []any{p.Name, p.SQL, p.ParamOIDs()}, []any{"n", "q", []uint32{20, 0}})

	bind := &pgproto3.Bind{DestinationPortal: "p", PreparedStatement: "s", Parameters: [][]byte{[]byte("v"), nil},
		ResultFormatCodes: []int16{1}}
	b := must[Bind](t)(DecodeBind(body(t, bind)))
	equal(t, "bind", []any{b.Portal, b.Statement}, []any{"p", "s"})
	bind.DestinationPortal, bind.PreparedStatement = "", "other"
	equal(t, "bind with other names", AppendBindRest(nil, "", "other", b.Rest), oracle(t, bind))
	for _, formats := range [][]int16{nil, {0}, {1, 0, 1}} {
		client := &pgproto3.Bind{DestinationPortal: "q", PreparedStatement: "s", ParameterFormatCodes: []int16{1, 0},
			Parameters: [][]byte{[]byte("v"), nil}, ResultFormatCodes: formats}
		want := &pgproto3.Bind{PreparedStatement: "other", ParameterFormatCodes: []int16{1, 0},
			Parameters: [][]byte{[]byte("v"), nil}, ResultFormatCodes: []int16{1}}
		equal(t, "bind for binary results", AppendBindAs(nil, "other", oracle(t, client), 1), oracle(t, want))
	}

	kind, name, err := DecodeTarget(body(t, &pgproto3.Describe{ObjectType: 'S', Name: "x"}))
	equal(t, "describe", []any{kind, name, err}, []any{byte('S'), "x", error(nil)})
	kind, name, err = DecodeTarget(body(t, &pgproto3.Close{ObjectType: 'P', Name: ""}))
	equal(t, "close", []any{kind, name, err}, []any{byte('P'), "", error(nil)})
	portal, rows, err := DecodeExecute(body(t, &pgproto3.Execute{Portal: "p", MaxRows: 9}))
	equal(t, "execute", []any{portal, rows, err}, []any{"p", uint32(9), error(nil)})
}

func TestDecodeBackend(t *testing.T) {
	equal(t, "error", must[ErrorFields](t)(DecodeErrorFields(body(t, &allFieldsOracle))), allFields)
	equal(t, "tag", must[string](t)(DecodeCommandComplete(
		body(t, &pgproto3.CommandComplete{CommandTag: []byte("BEGIN")}))), "BEGIN")
	equal(t, "ready", must[byte](t)(DecodeReadyForQuery([]byte("E"))), byte('E'))
	name, value, err := DecodeParameterStatus(body(t, &pgproto3.ParameterStatus{Name: "a", Value: "b"}))
	equal(t, "status", []any{name, value, err}, []any{"a", "b", error(nil)})
	pid, secret, err := DecodeBackendKeyData(body(t, &pgproto3.BackendKeyData{ProcessID: 3, SecretKey: []byte("abcd")}))
	equal(t, "key", []any{pid, secret, err}, []any{uint32(3), []byte("abcd"), error(nil)})
	equal(t, "columns", must[[]Column](t)(DecodeRowDescription(
		body(t, &pgproto3.RowDescription{Fields: goldenFields}))), goldenColumns)
	values := [][]byte{[]byte("1"), nil, {}}
	equal(t, "row", must[[][]byte](t)(DecodeDataRow(nil, body(t, &pgproto3.DataRow{Values: values}))), values)
	equal(t, "params", must[[]uint32](t)(DecodeParameterDescription(
		body(t, &pgproto3.ParameterDescription{ParameterOIDs: []uint32{1, 2}}))), []uint32{1, 2})
	mechs := body(t, &pgproto3.AuthenticationSASL{AuthMechanisms: []string{"A", "B"}})
	code, rest, err := DecodeAuthentication(mechs)
	equal(t, "auth", []any{code, err}, []any{uint32(AuthSASL), error(nil)})
	equal(t, "mechanisms", must[[]string](t)(DecodeSASLMechanisms(rest)), []string{"A", "B"})
}

// A cut or lengthened body is an ERROR 08P01, never a panic or a success.
func TestDecodeRefusesBadBodies(t *testing.T) {
	one := func(f func([]byte) error) func([]byte) error { return f }
	for name, c := range map[string]struct {
		body   []byte
		decode func([]byte) error
	}{
		"Query": {body(t, &pgproto3.Query{String: "q"}),
			one(func(b []byte) error { _, err := DecodeQuery(b); return err })},
		"Parse": {body(t, &pgproto3.Parse{Query: "q", ParameterOIDs: []uint32{1}}),
			one(func(b []byte) error { _, err := DecodeParse(b); return err })},
		"Describe": {body(t, &pgproto3.Describe{ObjectType: 'S', Name: "n"}),
			one(func(b []byte) error { _, _, err := DecodeTarget(b); return err })},
		"Execute": {body(t, &pgproto3.Execute{Portal: "p"}),
			one(func(b []byte) error { _, _, err := DecodeExecute(b); return err })},
		"SASLInit": {body(t, &pgproto3.SASLInitialResponse{AuthMechanism: "M", Data: []byte("x")}),
			one(func(b []byte) error { _, _, err := DecodeSASLInitialResponse(b); return err })},
		"Error": {body(t, &allFieldsOracle),
			one(func(b []byte) error { _, err := DecodeErrorFields(b); return err })},
		"Tag": {body(t, &pgproto3.CommandComplete{CommandTag: []byte("X")}),
			one(func(b []byte) error { _, err := DecodeCommandComplete(b); return err })},
		"Ready": {[]byte("I"), one(func(b []byte) error { _, err := DecodeReadyForQuery(b); return err })},
		"Status": {body(t, &pgproto3.ParameterStatus{Name: "a", Value: "b"}),
			one(func(b []byte) error { _, _, err := DecodeParameterStatus(b); return err })},
		"Columns": {body(t, &pgproto3.RowDescription{Fields: goldenFields}),
			one(func(b []byte) error { _, err := DecodeRowDescription(b); return err })},
		"Row": {body(t, &pgproto3.DataRow{Values: [][]byte{[]byte("1"), nil}}),
			one(func(b []byte) error { _, err := DecodeDataRow(nil, b); return err })},
		"Params": {body(t, &pgproto3.ParameterDescription{ParameterOIDs: []uint32{1}}),
			one(func(b []byte) error { _, err := DecodeParameterDescription(b); return err })},
		"Mechs": {[]byte("A\x00B\x00\x00"),
			one(func(b []byte) error { _, err := DecodeSASLMechanisms(b); return err })},
	} {
		if err := c.decode(c.body); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for n := range len(c.body) {
			wantProtocolError(t, name, c.decode(c.body[:n]), SeverityError)
		}
		wantProtocolError(t, name, c.decode(append(bytes.Clone(c.body), 'x')), SeverityError)
	}
	_, err := DecodeReadyForQuery([]byte("X"))
	wantProtocolError(t, "status X", err, SeverityError)
	for _, n := range []int{0, 257} {
		_, _, err = DecodeBackendKeyData(make([]byte, 4+n))
		wantProtocolError(t, "key length", err, SeverityError)
	}
}

func wantProtocolError(t *testing.T, what string, err error, severity string) {
	t.Helper()
	p, ok := err.(*ProtocolError)
	if !ok || p.Code != CodeProtocolViolation || p.Severity != severity {
		t.Errorf("%s: got %v, want a %s protocol error", what, err, severity)
	}
}

func TestBuildersPanicOnZeroBytesAndCounts(t *testing.T) {
	for name, f := range map[string]func(){
		"sql":     func() { AppendQuery(nil, "select 1\x00; drop") },
		"name":    func() { AppendParse(nil, "\x00", "", nil) },
		"status":  func() { AppendParameterStatus(nil, "a", "b\x00") },
		"count":   func() { AppendParameterDescription(nil, make([]uint32, 65536)) },
		"startup": func() { AppendStartup(nil, 3, 0, []Param{{"", "x"}}) },
		"sasl":    func() { AppendAuthenticationSASL(nil, []string{""}) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			f()
		}()
	}
}

func TestSQLError(t *testing.T) {
	base := Errorf(CodeSerializationFailure, "conflict on %s", "t")
	e := base.WithDetail("key %d", 1).WithHint("retry").WithPosition(3)
	if base.Detail != "" || base.Hint != "" || base.Position != 0 {
		t.Error("With changed the original")
	}
	want := ErrorFields{Severity: "ERROR", SeverityUnlocalized: "ERROR", Code: "40001", Message: "conflict on t",
		Detail: "key 1", Hint: "retry", Position: 3}
	equal(t, "fields", e.ErrorFields, want)
	equal(t, "text", e.Error(), "ERROR: conflict on t (SQLSTATE 40001): key 1")
	equal(t, "decoded", must[ErrorFields](t)(DecodeErrorFields(e.Append(nil)[HeaderBytes:])), want)
	equal(t, "fatal", e.AsFatal().Severity+e.Severity, "FATALERROR")
	equal(t, "state", e.SQLState(), "40001")
}
