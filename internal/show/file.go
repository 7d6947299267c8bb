package show

import (
	"bytes"
	"context"
	"log/slog"
	"time"

	"github.com/tuttidb/tutti/internal/capture"
	"github.com/tuttidb/tutti/internal/metrics"
	"github.com/tuttidb/tutti/internal/process"
)

const (
	// fileEvery is between two writings of the file that the views tutti.metrics and tutti.conflicts read.
	fileEvery = time.Second
	// fileSeldom is the same while there is no client who could read them. It is written when one comes.
	fileSeldom = 10 * time.Second
)

// File is that file, see capture.MetricsFile.
type File struct {
	Log     *slog.Logger
	Metrics *metrics.Registry
	Replace func(content []byte) error
	// Clients reports whether there is a client; Come has an element once the first one has come.
	Clients func() bool
	Come    <-chan struct{}
}

// Keep keeps the file up to date until ctx ends.
func (f *File) Keep(ctx context.Context) {
	var told, now []byte // as written, and as it is
	failing, came := false, false
	timer := time.NewTimer(fileEvery)
	defer timer.Stop()
	for {
		if now = appendMetrics(now[:0], f.Metrics); failing || !bytes.Equal(now, told) {
			err := f.Replace(now)
			if err != nil && !failing {
				f.Log.Warn("the views tutti.metrics and tutti.conflicts are not up to date", "error", err)
			}
			failing = err != nil
			told, now = now, told
		}
		every, come := fileEvery, (<-chan struct{})(nil)
		if !came && !f.Clients() {
			every, come = fileSeldom, f.Come
		}
		timer.Reset(process.ToBeat(every))
		came = false
		select {
		case <-ctx.Done():
			return
		case <-come:
			came = true
		case <-timer.C:
		}
	}
}

// appendMetrics adds the lines of all numbers; of a histogram, its count and sum. The label with the database is left
// out: each sees its own.
func appendMetrics(dst []byte, from *metrics.Registry) []byte {
	from.Read(func(s metrics.Sample) {
		for _, p := range s.Brief() {
			database := ""
			if len(p.Labels) > 0 && p.Labels[0] == "database" {
				database, p.Labels, p.Values = p.Values[0], p.Labels[1:], p.Values[1:]
			}
			dst = capture.AppendMetric(dst, database, p.Name, p.LabelText(), p.Text())
		}
	})
	return dst
}
