package untar

import (
	"archive/tar"
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func archive(t testing.TB, hs ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range hs {
		body := ""
		if h.Typeflag == tar.TypeReg {
			body = strings.Repeat("x", int(h.Size))
		}
		if h.Mode == 0 {
			h.Mode = 0o644
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func reg(name string, size int64) tar.Header {
	return tar.Header{Name: name, Size: size, Typeflag: tar.TypeReg}
}

func link(name, to string) tar.Header {
	return tar.Header{Name: name, Linkname: to, Typeflag: tar.TypeSymlink}
}

var limits = Options{MaxBytes: 1000, MaxEntries: 10, Symlinks: true}

func TestExtract(t *testing.T) {
	dir := t.TempDir()
	o := limits
	o.Skip = func(n string) bool { return n == "skipped" }
	var made []string
	o.Created = func(_ *os.Root, n string) error { made = append(made, n); return nil }
	data := archive(t,
		tar.Header{Name: "./", Typeflag: tar.TypeDir, Mode: 0o755},
		tar.Header{Name: "d/", Typeflag: tar.TypeDir, Mode: 0o755},
		tar.Header{Name: "d/run", Size: 3, Typeflag: tar.TypeReg, Mode: 0o4755},
		reg("no/parent/listed", 5),
		reg("skipped", 7),
		link("d/l", "../no/parent/listed"))
	if err := Extract(bytes.NewReader(data), dir, o); err != nil {
		t.Fatal(err)
	}
	if fi, err := os.Stat(filepath.Join(dir, "d/run")); err != nil || fi.Mode() != 0o755 || fi.Size() != 3 {
		t.Fatalf("d/run: %v %v", fi, err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "d/l")); err != nil || string(b) != "xxxxx" {
		t.Fatalf("through the link: %q %v", b, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "skipped")); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("skipped entry exists: %v", err)
	}
	if got, want := strings.Join(made, " "), "d d/run no no/parent no/parent/listed d/l"; got != want {
		t.Fatalf("created %q, want %q", got, want)
	}
}

func TestRefusals(t *testing.T) {
	noLinks := limits
	noLinks.Symlinks = false
	for name, c := range map[string]struct {
		o    Options
		want error
		hs   []tar.Header
	}{
		"parent":           {limits, ErrUnsafe, []tar.Header{reg("../evil", 1)}},
		"hidden parent":    {limits, ErrUnsafe, []tar.Header{reg("a/../../evil", 1)}},
		"absolute":         {limits, ErrUnsafe, []tar.Header{reg("/evil", 1)}},
		"backslash":        {limits, ErrUnsafe, []tar.Header{reg(`..\evil`, 1)}},
		"absolute link":    {limits, ErrUnsafe, []tar.Header{link("l", "/etc")}},
		"link out":         {limits, ErrUnsafe, []tar.Header{link("l", "../..")}},
		"link not allowed": {noLinks, ErrUnsafe, []tar.Header{link("l", "x")}},
		"hard link": {limits, ErrUnsafe, []tar.Header{
			{Name: "h", Linkname: "/etc/passwd", Typeflag: tar.TypeLink}}},
		"device":      {limits, ErrUnsafe, []tar.Header{{Name: "dev", Typeflag: tar.TypeChar}}},
		"twice":       {limits, ErrUnsafe, []tar.Header{reg("a", 1), reg("a", 2)}},
		"over a link": {limits, ErrUnsafe, []tar.Header{link("a", "b"), reg("a", 2)}},
		"directory on file": {limits, ErrUnsafe, []tar.Header{reg("a", 1),
			{Name: "a/", Typeflag: tar.TypeDir, Mode: 0o755}}},
		"one big file": {limits, ErrTooLarge, []tar.Header{reg("a", 1001)}},
		"many files":   {limits, ErrTooLarge, []tar.Header{reg("a", 600), reg("b", 401)}},
		"entries": {Options{MaxBytes: 10, MaxEntries: 1}, ErrTooLarge,
			[]tar.Header{reg("a", 1), reg("b", 1)}},
	} {
		t.Run(name, func(t *testing.T) {
			outer := t.TempDir()
			dir := filepath.Join(outer, "in")
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			err := Extract(bytes.NewReader(archive(t, c.hs...)), dir, c.o)
			if !errors.Is(err, c.want) {
				t.Fatalf("got %v, want %v", err, c.want)
			}
			onlyIn(t, outer)
		})
	}
}

// A chain of links, each of which stays inside by its text, must not lead outside (U1).
func TestLinkChainCannotEscape(t *testing.T) {
	outer := t.TempDir()
	dir := filepath.Join(outer, "in")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	data := archive(t,
		tar.Header{Name: "a/b/", Typeflag: tar.TypeDir, Mode: 0o755},
		link("up", "a/b"),
		link("a/b/out", "../../up/../.."), // textually inside; resolved: above the directory
		reg("a/b/out/evil", 1))
	if err := Extract(bytes.NewReader(data), dir, limits); err == nil {
		t.Fatal("wrote through a chain of links")
	}
	onlyIn(t, outer)
}

func TestTruncated(t *testing.T) {
	data := archive(t, reg("a", 900))
	if err := Extract(bytes.NewReader(data[:700]), t.TempDir(), limits); err == nil {
		t.Fatal("truncated archive was accepted")
	}
}

// onlyIn fails when anything but the directory "in" was made in outer.
func onlyIn(t testing.TB, outer string) {
	t.Helper()
	es, err := os.ReadDir(outer)
	if err != nil {
		t.Fatal(err)
	}
	if len(es) != 1 || es[0].Name() != "in" {
		t.Fatalf("the archive wrote outside its directory: %v", es)
	}
}

func FuzzExtract(f *testing.F) {
	f.Add(archive(f, reg("a/b", 3), link("l", "a"), reg("l/c", 1)))
	f.Add(archive(f, reg("../evil", 1)))
	f.Add([]byte("not a tar"))
	f.Fuzz(func(t *testing.T, data []byte) {
		outer := t.TempDir()
		dir := filepath.Join(outer, "in")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		o := limits
		o.DirMode, o.FileMode = 0o700, 0o600
		_ = Extract(bytes.NewReader(data), dir, o) // any error is fine, an escape is not
		onlyIn(t, outer)
		var total int64
		err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			fi, err := d.Info()
			if err == nil {
				total += fi.Size()
			}
			return err
		})
		if err != nil || total > o.MaxBytes {
			t.Fatalf("%d bytes written, %v", total, err)
		}
	})
}
