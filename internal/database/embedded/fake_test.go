package embedded

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
	"net/http"
	"net/http/httptest"
	"path"
	"sync/atomic"
	"testing"
)

const fakePostgres = "#!/bin/sh\necho 'postgres (PostgreSQL) 17.11'\n"

type entry struct {
	name, body, link string
	mode             int64
}

// goodTree is the smallest archive that makes a usable Build.
var goodTree = []entry{
	{name: "bin/initdb", body: "#!/bin/sh\n", mode: 0o755},
	{name: "bin/pg_ctl", body: "#!/bin/sh\n", mode: 0o755},
	{name: "bin/postgres", body: fakePostgres, mode: 0o755},
	{name: "lib/libpq.so.5", body: "library", mode: 0o644},
	{name: "lib/libpq.so", link: "libpq.so.5"},
}

func makeTar(t testing.TB, es []entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range es {
		h := &tar.Header{Name: e.name, Size: int64(len(e.body)), Mode: e.mode, Typeflag: tar.TypeReg}
		if e.link != "" {
			h.Typeflag, h.Linkname = tar.TypeSymlink, e.link
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(e.body)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// makeXZ wraps data in an xz stream of stored (not compressed) LZMA2 chunks: the format is
// simple when nothing is compressed. See the .xz file format, sections 2 to 4.
func makeXZ(data []byte) []byte {
	crc := func(b []byte) []byte { return binary.LittleEndian.AppendUint32(nil, crc32.ChecksumIEEE(b)) }
	flags := []byte{0, 1} // check: CRC32

	out := append([]byte{0xFD, '7', 'z', 'X', 'Z', 0}, flags...)
	out = append(out, crc(flags)...)

	header := []byte{2, 0, 0x21, 1, 20, 0, 0, 0} // 12 bytes with CRC; one filter: LZMA2, 4 MiB
	block := append(header, crc(header)...)
	for rest, first := data, true; len(rest) > 0; first = false {
		n := min(len(rest), 1<<16)
		control := byte(2)
		if first {
			control = 1 // resets the dictionary
		}
		block = append(block, control, byte((n-1)>>8), byte(n-1))
		block = append(block, rest[:n]...)
		rest = rest[n:]
	}
	block = append(block, 0)
	unpadded := len(block) + 4
	for len(block)%4 != 0 {
		block = append(block, 0)
	}
	block = append(block, crc(data)...)
	out = append(out, block...)

	index := []byte{0, 1}
	index = binary.AppendUvarint(index, uint64(unpadded))
	index = binary.AppendUvarint(index, uint64(len(data)))
	for len(index)%4 != 0 {
		index = append(index, 0)
	}
	index = append(index, crc(index)...)
	out = append(out, index...)

	footer := binary.LittleEndian.AppendUint32(nil, uint32(len(index)/4-1))
	footer = append(footer, flags...)
	out = append(out, crc(footer)...)
	out = append(out, footer...)
	return append(out, 'Y', 'Z')
}

func makeJar(t testing.TB, files map[string][]byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for name, body := range files {
		f, err := w.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write(body); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func jarOf(t testing.TB, es []entry) []byte {
	return makeJar(t, map[string][]byte{
		"META-INF/MANIFEST.MF": []byte("Manifest-Version: 1.0\n"),
		"postgres-fake.txz":    makeXZ(makeTar(t, es)),
	})
}

// serve starts a mirror that answers the artifact's path with body, and points EnvURL at it.
// The artifact pins jar, which need not be what is served.
func serve(t *testing.T, jar []byte, answer http.HandlerFunc) (*artifact, *atomic.Int32) {
	t.Helper()
	sum := sha256.Sum256(jar)
	a := &artifact{platform: "fake", size: int64(len(jar)), sha256: hex.EncodeToString(sum[:])}
	hits := new(atomic.Int32)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hits.Add(1)
		if path.Base(r.URL.Path) != "embedded-postgres-binaries-fake-17.11.0.jar" {
			http.NotFound(w, r)
			return
		}
		answer(w, r)
	}))
	t.Cleanup(srv.Close)
	t.Setenv(EnvURL, srv.URL+"/maven/")
	return a, hits
}

func send(body []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(body) // the client may hang up early, on purpose
	}
}
