package show

import (
	"strings"
	"testing"
	"time"

	"github.com/tuttidb/tutti/internal/metrics"
)

// TestMetricsFile: the file has each number once, by database, and of histograms no buckets. What has not changed reads
// the same.
func TestMetricsFile(t *testing.T) {
	r, d := metrics.New(), &metrics.Database{}
	defer r.Enter("shop", d, nil)()
	d.Transactions.Phases.Observe(metrics.PhaseOrder, 3*time.Millisecond)
	d.Transactions.Conflicts.Add("public", "äpfel", "row")
	first := string(appendMetrics(nil, r))
	for _, line := range []string{
		"73686f70\ttutti_commit_phase_duration_seconds_sum\t{\"phase\": \"order\"}\t0.003\n",
		"73686f70\ttutti_commit_phase_duration_seconds_count\t{\"phase\": \"order\"}\t1\n",
		"73686f70\ttutti_conflicts_total\t" +
			"{\"schema\": \"public\", \"table\": \"\\u00e4pfel\", \"cause\": \"row\"}\t1\n",
		"-\ttutti_client_logins_total\t{}\t0\n",
	} {
		if strings.Count(first, line) != 1 {
			t.Errorf("%q is not there once in\n%s", line, first)
		}
	}
	if strings.Contains(first, "_bucket") {
		t.Error("buckets are told")
	}
	if again := string(appendMetrics(nil, r)); again != first {
		t.Errorf("nothing was counted, and it reads\n%s\ninstead of\n%s", again, first)
	}
}
