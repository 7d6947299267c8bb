package probe

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/tuttidb/tutti/internal/metrics"
)

// collector gives Prometheus' library what a registry has. Counting costs nothing of the library's.
type collector struct {
	registry *metrics.Registry
	descs    map[string]*prometheus.Desc
}

func newCollector(r *metrics.Registry) *collector {
	c := &collector{registry: r, descs: map[string]*prometheus.Desc{}}
	for _, m := range r.Metrics() {
		c.descs[m.Name] = prometheus.NewDesc(m.Name, m.Help, m.Labels, nil)
	}
	return c
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range c.descs { // order-free: the library sorts
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	c.registry.Read(func(s metrics.Sample) {
		d := c.descs[s.Name]
		switch s.Kind {
		case metrics.KindHistogram:
			out <- prometheus.MustNewConstHistogram(d, s.Times.Count, s.Times.Sum, s.Times.Buckets, s.Values...)
		case metrics.KindCounter:
			out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, s.Value, s.Values...)
		default:
			out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, s.Value, s.Values...)
		}
	})
}

// scrapes answers /metrics: the node's, and the Go runtime's and the process's by the library's own names.
func scrapes(r *metrics.Registry) http.Handler {
	all := prometheus.NewPedanticRegistry()
	all.MustRegister(newCollector(r), collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return promhttp.HandlerFor(all, promhttp.HandlerOpts{MaxRequestsInFlight: scrapesAtOnce, Timeout: writeTimeout / 2})
}
