package wire

import (
	"bytes"
	"testing"
)

// frames collects the stream as Next cuts it.
func frames(data []byte, l Limits) (out []byte) {
	r := NewReader(bytes.NewReader(data), l)
	for {
		f, err := r.Next()
		if err != nil {
			return out
		}
		out = append(out, f.Raw...)
	}
}

func fuzzStream(f *testing.F, l Limits) {
	f.Add(AppendSync(AppendQuery(nil, "select 1")))
	f.Add(AppendReadyForQuery(AppendTextRow(nil, "a"), 'I'))
	f.Add(header('Q', 3))
	f.Add(header('D', 1<<31))
	f.Fuzz(func(t *testing.T, data []byte) {
		if out := frames(data, l); !bytes.HasPrefix(data, out) {
			t.Fatal("frames are not the stream")
		}
	})
}

func FuzzFrontendStream(f *testing.F) { fuzzStream(f, FrontendLimits()) }

func FuzzBackendStream(f *testing.F) { fuzzStream(f, BackendLimits()) }

func FuzzStartup(f *testing.F) {
	f.Add(userStartup(2, Param{"_pq_.a", "1"})[4:])
	f.Add(AppendCancelRequest(nil, 1, []byte("abcd"))[4:])
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) < 4 {
			return // packet never returns less
		}
		if c, err := decodeCancel(data[4:]); err == nil &&
			!bytes.Equal(AppendCancelRequest(nil, c.PID, c.Secret)[8:], data[4:]) {
			t.Fatal("cancel request changed")
		}
		s, minor, err := decodeStartup(data, ProtocolMinorLong)
		if err == nil && len(s.UnknownOptions) == 0 && !bytes.Equal(AppendStartup(nil, 3, minor, s.Ordered)[4:], data) {
			t.Fatalf("start-up packet changed: %+v", s)
		}
	})
}

func FuzzSASL(f *testing.F) {
	f.Add([]byte("SCRAM-SHA-256-PLUS\x00SCRAM-SHA-256\x00\x00"))
	f.Add(AppendSASLInitialResponse(nil, mechanismScram, []byte("p=x,,"))[5:])
	f.Fuzz(func(t *testing.T, data []byte) {
		if names, err := DecodeSASLMechanisms(data); err == nil {
			if !bytes.Equal(AppendAuthenticationSASL(nil, names)[9:], data) {
				t.Fatal("list changed")
			}
			for _, n := range relayable(names) {
				if n != mechanismScram {
					t.Fatal(n)
				}
			}
		}
		if err := checkSASLChoice(data, []string{mechanismScram}); err == nil {
			if _, d, _ := DecodeSASLInitialResponse(data); len(d) > 0 && d[0] == 'p' {
				t.Fatal("channel binding passed")
			}
		}
	})
}

// FuzzDecode: what decodes encodes to the same bytes again.
func FuzzDecode(f *testing.F) {
	f.Add(AppendParse(nil, "a", "b", []uint32{1})[5:])
	f.Add(AppendRowDescription(nil, goldenColumns)[5:])
	f.Add(AppendDataRow(nil, [][]byte{nil, {}})[5:])
	f.Add(AppendErrorResponse(nil, allFields)[5:])
	f.Add([]byte("a\x00b\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		same := func(what string, err error, again func() []byte) {
			if err == nil && !bytes.Equal(again()[5:], b) {
				t.Fatalf("%s changed", what)
			}
		}
		sql, err := DecodeQuery(b)
		same("query", err, func() []byte { return AppendQuery(nil, sql) })
		p, err := DecodeParse(b)
		same("parse", err, func() []byte { return AppendParse(nil, p.Name, p.SQL, p.ParamOIDs()) })
		bind, err := DecodeBind(b)
		same("bind", err, func() []byte { return AppendBindRest(nil, bind.Portal, bind.Statement, bind.Rest) })
		if err == nil {
			AppendBindAs(nil, "s", AppendBindRest(nil, bind.Portal, bind.Statement, bind.Rest), 1, 0)
			_, _ = ResultFormats(AppendBindRest(nil, bind.Portal, bind.Statement, bind.Rest), 3)
		}
		kind, name, err := DecodeTarget(b)
		same("target", err, func() []byte { return AppendClose(nil, kind, name) })
		portal, rows, err := DecodeExecute(b)
		same("execute", err, func() []byte { return AppendExecute(nil, portal, rows) })
		tag, err := DecodeCommandComplete(b)
		same("tag", err, func() []byte { return AppendCommandComplete(nil, tag) })
		status, err := DecodeReadyForQuery(b)
		same("ready", err, func() []byte { return AppendReadyForQuery(nil, status) })
		key, value, err := DecodeParameterStatus(b)
		same("status", err, func() []byte { return AppendParameterStatus(nil, key, value) })
		pid, secret, err := DecodeBackendKeyData(b)
		same("key", err, func() []byte { return AppendBackendKeyData(nil, pid, secret) })
		columns, err := DecodeRowDescription(b)
		same("columns", err, func() []byte { return AppendRowDescription(nil, columns) })
		values, err := DecodeDataRow(nil, b)
		same("row", err, func() []byte { return AppendDataRow(nil, values) })
		oids, err := DecodeParameterDescription(b)
		same("oids", err, func() []byte { return AppendParameterDescription(nil, oids) })
		code, rest, err := DecodeAuthentication(b)
		same("auth", err, func() []byte { return auth(nil, code, rest) })
		if fields, err := DecodeErrorFields(b); err == nil && fields.SeverityUnlocalized != "" {
			again, err := DecodeErrorFields(AppendErrorResponse(nil, fields)[5:])
			if err != nil || again != fields {
				t.Fatalf("fields changed: %+v, %+v, %v", fields, again, err)
			}
		}
	})
}
