package embedded

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

// Limits of a download.
const (
	downloadTimeout = 15 * time.Minute // whole archive
	stallTimeout    = 30 * time.Second // without a single byte
)

// ErrHash is wrapped by the error about an archive that is not the pinned one.
var ErrHash = errors.New("SHA-256 mismatch")

var errStalled = errors.New("no data for " + stallTimeout.String())

// download fetches a into the new file at path and returns once size and hash are verified.
// On error no file is left behind.
func download(ctx context.Context, o Options, a artifact, path string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, downloadTimeout)
	defer cancel()
	ctx, stall := context.WithCancelCause(ctx)
	defer stall(nil)
	watchdog := time.AfterFunc(stallTimeout, func() { stall(errStalled) })
	defer watchdog.Stop()

	url := a.url()
	fail := func(err error) error {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return fmt.Errorf("download %s: %w", url, err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fail(err)
	}
	client := o.Client
	if client == nil {
		client = http.DefaultClient
	}
	resp, err := client.Do(req)
	if err != nil {
		return fail(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fail(fmt.Errorf("the server answered %s", resp.Status))
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return fail(err)
	}
	defer func() {
		if cerr := f.Close(); err == nil && cerr != nil {
			err = fail(cerr)
		}
		if err != nil {
			err = errors.Join(err, os.Remove(path))
		}
	}()
	m := &meter{total: a.size, report: o.Progress, alive: func() { watchdog.Reset(stallTimeout) }}
	hash := sha256.New()
	// One byte more than expected tells a longer archive from the right one.
	n, err := io.Copy(io.MultiWriter(f, hash, m), io.LimitReader(resp.Body, a.size+1))
	if err != nil {
		return fail(fmt.Errorf("after %d of %d bytes: %w", n, a.size, err))
	}
	if n < a.size {
		return fail(fmt.Errorf("truncated: %d of %d bytes", n, a.size))
	}
	if got := hex.EncodeToString(hash.Sum(nil)); n > a.size || got != a.sha256 {
		return fail(fmt.Errorf("%w: got %s, want %s (%d bytes); the file was not used", ErrHash, got, a.sha256, a.size))
	}
	return nil
}

// meter reports progress and life.
type meter struct {
	done, total int64
	report      func(done, total int64)
	alive       func()
}

func (m *meter) Write(p []byte) (int, error) {
	m.alive()
	m.done += int64(len(p))
	if m.report != nil {
		m.report(min(m.done, m.total), m.total)
	}
	return len(p), nil
}
