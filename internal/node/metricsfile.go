package node

import (
	"bytes"
	"context"
	"time"

	"github.com/tuttidb/tutti/internal/capture"
	"github.com/tuttidb/tutti/internal/database/instance"
	"github.com/tuttidb/tutti/internal/metrics"
	"github.com/tuttidb/tutti/internal/process"
)

const (
	// metricsEvery is between two writings of the file that the views tutti.metrics and tutti.conflicts read.
	metricsEvery = time.Second
	// metricsSeldom is the same while there is no client who could read them. It is written when one comes.
	metricsSeldom = 10 * time.Second
)

// tellMetrics keeps that file up to date until ctx ends. See capture.MetricsFile.
func (t *tenure) tellMetrics(ctx context.Context) {
	var told, now []byte // as written, and as it is
	failing, came := false, false
	timer := time.NewTimer(metricsEvery)
	defer timer.Stop()
	for {
		if now = appendMetrics(now[:0], t.node.metrics); failing || !bytes.Equal(now, told) {
			err := instance.Replace(t.pg, capture.MetricsFile, now)
			if err != nil && !failing {
				t.node.log.Warn("the views tutti.metrics and tutti.conflicts are not up to date", "error", err)
			}
			failing = err != nil
			told, now = now, told
		}
		every, come := metricsEvery, (<-chan struct{})(nil)
		if !came && t.clients.Load() == 0 {
			every, come = metricsSeldom, t.come
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
