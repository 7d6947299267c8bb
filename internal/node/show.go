package node

import (
	"fmt"

	"github.com/tuttidb/tutti/internal/advisory"
	"github.com/tuttidb/tutti/internal/audit"
	"github.com/tuttidb/tutti/internal/session"
	"github.com/tuttidb/tutti/internal/wire"
)

// shows is session.Status.
type shows struct{ l *life }

// Show answers SHOW tutti.*.
func (x shows) Show(name string) session.Result {
	switch name {
	case "status":
		return showStatus(x.l)
	case "databases":
		return x.l.tenure.showDatabases()
	case "checksums":
		return x.l.audit.Show()
	case "counters":
		return x.l.showCounters()
	case "metrics":
		return showMetrics(x.l.node)
	case "waits":
		return showWaits(x.l)
	case "limits":
		return x.l.showLimits()
	case "locks":
		return x.l.advisory.Show()
	case "plans":
		return x.l.forms.plans.show()
	case "applied":
		return session.Result{Tag: "SHOW", Columns: x.ShowColumns(name),
			Rows: [][]string{{fmt.Sprint(x.l.core.Applied())}}}
	}
	return session.Result{Err: wire.Errorf("42704", "unrecognized configuration parameter \"tutti.%s\"", name).
		WithHint("Known are tutti.status, tutti.databases, tutti.checksums, tutti.counters, tutti.metrics, " +
			"tutti.waits, tutti.limits, " +
			"tutti.locks, tutti.plans and tutti.applied.")}
}

// ShowColumns names the columns of Show's answer.
func (x shows) ShowColumns(name string) []string {
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
