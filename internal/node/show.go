package node

import (
	"fmt"

	"github.com/tuttidb/tutti/internal/advisory"
	"github.com/tuttidb/tutti/internal/audit"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
)

// Show answers SHOW tutti.*.
func (h *host) Show(name string) session.Result {
	switch name {
	case "status":
		return h.n.showStatus()
	case "databases":
		return h.n.tenure.showDatabases()
	case "checksums":
		return h.n.audit.Show()
	case "counters":
		return h.n.showCounters()
	case "metrics":
		return showMetrics(h.n.node)
	case "waits":
		return showWaits(h.n)
	case "limits":
		return h.n.showLimits()
	case "locks":
		return h.n.advisory.Show()
	case "plans":
		return h.n.forms.plans.show()
	case "applied":
		return session.Result{Tag: "SHOW", Columns: h.ShowColumns(name),
			Rows: [][]string{{fmt.Sprint(h.n.core.applied.Load())}}}
	}
	return session.Result{Err: wire.Errorf("42704", "unrecognized configuration parameter \"tutti.%s\"", name).
		WithHint("Known are tutti.status, tutti.databases, tutti.checksums, tutti.counters, tutti.metrics, " +
			"tutti.waits, tutti.limits, " +
			"tutti.locks, tutti.plans and tutti.applied.")}
}

// ShowColumns names the columns of Show's answer.
func (h *host) ShowColumns(name string) []string {
	switch name {
	case "status":
		return statusColumns
	case "databases":
		return databaseColumns
	case "checksums":
		return audit.Columns
	case "counters":
		return counterColumns
	case "metrics":
		return metricColumns
	case "waits":
		return waitColumns
	case "limits":
		return limitColumns
	case "locks":
		return advisory.Columns
	case "plans":
		return planColumns
	}
	return []string{"tutti." + name}
}
