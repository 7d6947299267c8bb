package node

import (
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
	var told []byte
	failing := false
	for {
		told = appendMetrics(told[:0], t.node.metrics)
		err := instance.Replace(t.pg, capture.MetricsFile, told)
		if err != nil && !failing {
			t.node.log.Warn("the views tutti.metrics and tutti.conflicts are not up to date", "error", err)
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// appendMetrics adds the lines of all numbers. The label with the database is left out: each sees its own.
func appendMetrics(dst []byte, from *metrics.Registry) []byte {
	from.Read(func(s metrics.Sample) {
		for _, p := range s.Plain() {
			database := ""
			if len(p.Labels) > 0 && p.Labels[0] == "database" {
				database, p.Labels, p.Values = p.Values[0], p.Labels[1:], p.Values[1:]
			}
			dst = capture.AppendMetric(dst, database, p.Name, p.LabelText(), p.Text())
		}
	})
	return dst
}
