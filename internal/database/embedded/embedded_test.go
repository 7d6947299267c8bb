package embedded

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/tuttidb/tutti/internal/database/embedded/untar"
)

// The same checks run on a fake mirror, always, and on the real build when it is in the
// cache already or TUTTI_TEST_EMBEDDED=1 allows the network.
func TestEmbeddedBuild(t *testing.T) {
	t.Run("fake", func(t *testing.T) {
		jar := jarOf(t, goodTree)
		a, hits := serve(t, jar, send(jar))
		o := Options{NoSystem: true, CacheDir: t.TempDir(), artifact: a}
		checkEmbedded(t, o, a)
		if n := hits.Load(); n != 1 {
			t.Fatalf("%d downloads, want 1", n)
		}
	})
	a, err := thisArtifact()
	if err != nil {
		t.Log("no real build for this platform")
		return
	}
	cache, err := DefaultCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	real := Options{NoSystem: true, NoDownload: true}
	switch _, err := os.Stat(filepath.Join(cache, a.dirName())); {
	case os.Getenv("TUTTI_TEST_EMBEDDED") == "1":
		t.Run("real download", func(t *testing.T) {
			checkEmbedded(t, Options{NoSystem: true, CacheDir: t.TempDir()}, &a)
		})
	case err == nil:
		t.Run("real from cache", func(t *testing.T) { checkEmbedded(t, real, &a) })
	}
}

func checkEmbedded(t *testing.T, o Options, a *artifact) {
	t.Helper()
	var last, total int64
	o.Progress = func(d, n int64) {
		if d < last {
			t.Errorf("progress went back from %d to %d", last, d)
		}
		last, total = d, n
	}
	b, err := Find(o)
	if err != nil {
		t.Fatal(err)
	}
	if !b.Embedded || b.Major != 17 || b.Version != Version || !strings.Contains(b.String(), "do not benchmark") {
		t.Fatalf("unexpected build %+v: %s", b, b)
	}
	if !o.NoDownload && (last != a.size || total != a.size) {
		t.Fatalf("progress ended at %d of %d, want %d", last, total, a.size)
	}
	o.NoDownload, o.Progress = true, nil
	again, err := Find(o)
	if err != nil || again != b {
		t.Fatalf("from the cache: %+v, %v", again, err)
	}
	for _, p := range append([]string{"."}, "..") {
		fi, err := os.Stat(filepath.Join(b.BinDir, p))
		if err != nil || fi.Mode().Perm()&0o055 != 0o055 {
			t.Fatalf("%s is not open to other users: %v %v", p, fi, err)
		}
	}
}

func TestConcurrentFindDownloadsOnce(t *testing.T) {
	jar := jarOf(t, goodTree)
	a, hits := serve(t, jar, send(jar))
	cache := t.TempDir()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, err := Find(Options{NoSystem: true, CacheDir: cache, artifact: a}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := hits.Load(); n != 1 {
		t.Fatalf("%d downloads, want 1", n)
	}
}

func TestBadDownloads(t *testing.T) {
	good := jarOf(t, goodTree)
	flipped := append([]byte(nil), good...)
	flipped[len(flipped)/2] ^= 1
	evil := func(e entry) []byte { return jarOf(t, append([]entry{e}, goodTree...)) }
	type bad struct {
		pinned []byte
		answer http.HandlerFunc
		is     error
		says   string
	}
	same := func(jar []byte, is error, says string) bad { return bad{jar, send(jar), is, says} }
	for name, c := range map[string]bad{
		"one bit flipped": {good, send(flipped), ErrHash, "was not used"},
		"longer":          {good, send(append(append([]byte(nil), good...), 0)), ErrHash, "was not used"},
		"shorter":         {good, send(good[:len(good)-1]), nil, "truncated"},
		"connection cut": {good, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000000")
			_, _ = w.Write(good[:100])
		}, nil, "after 100 of"},
		"not found":      {good, http.NotFound, nil, "404"},
		"not a zip":      same([]byte("hello"), nil, "not a zip"),
		"no txz":         same(makeJar(t, map[string][]byte{"a": nil}), nil, "no .txz"),
		"two txz":        same(makeJar(t, map[string][]byte{"a.txz": nil, "b.txz": nil}), nil, "two .txz"),
		"not xz":         same(makeJar(t, map[string][]byte{"a.txz": []byte("hello, hello")}), nil, "xz"),
		"path traversal": same(evil(entry{name: "../../evil", body: "x"}), untar.ErrUnsafe, "../../evil"),
		"symlink escape": same(evil(entry{name: "lib/x", link: "../../../etc"}), untar.ErrUnsafe, "lib/x"),
		"no postgres":    same(jarOf(t, goodTree[:2]), nil, "no usable postgres"),
		"does not run": same(jarOf(t, []entry{goodTree[0], goodTree[1],
			{name: "bin/postgres", body: "#!/bin/sh\nexit 3\n", mode: 0o755}}), nil, "exit status 3"),
		"unknown version": same(jarOf(t, []entry{goodTree[0], goodTree[1],
			{name: "bin/postgres", body: "#!/bin/sh\necho hello\n", mode: 0o755}}), nil, "cannot read a version"),
	} {
		t.Run(name, func(t *testing.T) {
			a, _ := serve(t, c.pinned, c.answer)
			outer := t.TempDir()
			cache := filepath.Join(outer, "cache")
			_, err := Find(Options{NoSystem: true, CacheDir: cache, artifact: a})
			if err == nil {
				t.Fatal("accepted")
			}
			if c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("got %v, want %v", err, c.is)
			}
			for _, s := range []string{c.says, "--pg-bin-dir", "install"} {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("the error does not say %q: %v", s, err)
				}
			}
			if es, err := os.ReadDir(outer); err != nil || len(es) != 1 {
				t.Errorf("wrote outside the cache: %v %v", es, err)
			}
			left, err := filepath.Glob(filepath.Join(cache, ".unpack-*"))
			if err != nil || len(left) != 0 {
				t.Errorf("left behind: %v %v", left, err)
			}
		})
	}
}

func TestNoNetwork(t *testing.T) {
	a, _ := serve(t, []byte("x"), http.NotFound)
	t.Setenv(EnvURL, "http://127.0.0.1:1/")
	_, err := Find(Options{NoSystem: true, CacheDir: t.TempDir(), artifact: a})
	if err == nil || !strings.Contains(err.Error(), "refused") || !strings.Contains(err.Error(), "--pg-bin-dir") {
		t.Fatalf("got %v", err)
	}
}

func TestCancelledDownload(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	release := make(chan struct{})
	a, _ := serve(t, make([]byte, 1000), func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(make([]byte, 10))
		w.(http.Flusher).Flush()
		cancel()
		<-release
	})
	defer close(release)
	_, err := FindContext(ctx, Options{NoSystem: true, CacheDir: t.TempDir(), artifact: a})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
}

func fakeInstall(t *testing.T, dir, version string) string {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, n := range required {
		script := "#!/bin/sh\necho '" + n + " (PostgreSQL) " + version + "'\n"
		if err := os.WriteFile(filepath.Join(dir, n), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestSystemTakesTheHighest(t *testing.T) {
	d := t.TempDir()
	for _, v := range []string{"9.6.1", "14.20", "15.9", "15.18", "16beta1"} {
		fakeInstall(t, filepath.Join(d, v, "bin"), v)
	}
	o := Options{system: []string{filepath.Join(d, "*", "bin")}, NoDownload: true, CacheDir: t.TempDir()}
	for _, want := range []string{"16beta1", "15.18", "15.9"} {
		b, err := Find(o)
		if err != nil || b.Version != want || b.Embedded {
			t.Fatalf("got %+v, %v, want %s", b, err, want)
		}
		if err := os.RemoveAll(filepath.Join(d, want)); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", fakeInstall(t, filepath.Join(t.TempDir(), "p"), "15.2"))
	if b, err := Find(o); err != nil || b.Version != "15.2" {
		t.Fatalf("PATH: got %+v, %v", b, err)
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := Find(o); err == nil || !strings.Contains(err.Error(), "downloads are off") {
		t.Fatalf("nothing installed: %v", err)
	}
}

func TestExplicitDirectory(t *testing.T) {
	good := fakeInstall(t, filepath.Join(t.TempDir(), "b"), "18.1")
	if b, err := Find(Options{BinDir: good}); err != nil || b.Major != 18 {
		t.Fatalf("got %+v, %v", b, err)
	}
	old := fakeInstall(t, filepath.Join(t.TempDir(), "b"), "14.20")
	noInitdb := fakeInstall(t, filepath.Join(t.TempDir(), "b"), "16.1")
	notExec := fakeInstall(t, filepath.Join(t.TempDir(), "b"), "16.1")
	if err := errors.Join(os.Remove(filepath.Join(noInitdb, "initdb")),
		os.Chmod(filepath.Join(notExec, "pg_ctl"), 0o644)); err != nil {
		t.Fatal(err)
	}
	for dir, says := range map[string]string{
		old:                                "too old",
		noInitdb:                           "no usable initdb",
		notExec:                            "not an executable",
		filepath.Join(t.TempDir(), "none"): "no usable initdb",
	} {
		_, err := Find(Options{BinDir: dir})
		if err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: got %v, want %q", dir, err, says)
		}
	}
}

func TestPinnedArtifacts(t *testing.T) {
	dirs := map[string]bool{}
	for key, a := range artifacts {
		if len(a.sha256) != 64 || a.size < 1<<20 || dirs[a.dirName()] {
			t.Errorf("%s: %+v", key, a)
		}
		dirs[a.dirName()] = true
	}
	if !strings.HasPrefix(mavenVersion, Version) {
		t.Errorf("Version %s is not of %s", Version, mavenVersion)
	}
}

func FuzzParseVersion(f *testing.F) {
	f.Add("postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n")
	f.Add("postgres (PostgreSQL) 19devel\n")
	f.Add("postgres (PostgreSQL) 99999999999999999999\n")
	f.Fuzz(func(t *testing.T, s string) {
		v, major, err := parseVersion(s)
		if err == nil && (v == "" || major < 0 || !strings.Contains(s, v)) {
			t.Fatalf("%q: %q %d", s, v, major)
		}
	})
}
