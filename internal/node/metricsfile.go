package node

import (
	"bytes"
	"context"
	"time"

	"github.com/tuttidb/tutti/internal/capture"
	"github.com/tuttidb/tutti/internal/database/instance"
	"github.com/tuttidb/tutti/internal/metrics"
)

// metricsEvery is between two writings of the file that the views tutti.metrics and tutti.conflicts read.
const metricsEvery = time.Second

// tellMetrics keeps that file up to date until ctx ends. See capture.MetricsFile.
func (t *tenure) tellMetrics(ctx context.Context) {
	tick := time.NewTicker(metricsEvery)
	defer tick.Stop()
	var told, now []byte // as written, and as it is
	failing := false
	for {
		if now = appendMetrics(now[:0], t.node.metrics); failing || !bytes.Equal(now, told) {
			err := instance.Replace(t.pg, capture.MetricsFile, now)
			if err != nil && !failing {
				t.node.log.Warn("the views tutti.metrics and tutti.conflicts are not up to date", "error", err)
			}
			failing = err != nil
			told, now = now, told
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
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
