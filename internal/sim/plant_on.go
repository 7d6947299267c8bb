//go:build planted

package sim

import (
	"github.com/tuttidb/tutti/internal/admission"
	"github.com/tuttidb/tutti/internal/certify"
	"github.com/tuttidb/tutti/internal/engine"
	"github.com/tuttidb/tutti/internal/flow"
	"github.com/tuttidb/tutti/internal/grants"
	"github.com/tuttidb/tutti/internal/intent"
	"github.com/tuttidb/tutti/internal/locks"
	"github.com/tuttidb/tutti/internal/ordering"
	"github.com/tuttidb/tutti/internal/quorum"
	"github.com/tuttidb/tutti/internal/replacement"
	"github.com/tuttidb/tutti/internal/replica"
	"github.com/tuttidb/tutti/internal/rowcache"
	"github.com/tuttidb/tutti/internal/schemalock"
	"github.com/tuttidb/tutti/internal/session"
)

// plant switches a bug of the production code on, or off with an empty name.
func plant(name string) {
	certify.Plant(name)
	engine.Plant(name)
	ordering.Plant(name)
	locks.Plant(name)
	rowcache.Plant(name)
	session.Plant(name)
	replica.Plant(name)
	schemalock.Plant(name)
	grants.Plant(name)
	flow.Plant(name)
	admission.Plant(name)
	intent.Plant(name)
	quorum.Plant(name)
	replacement.Plant(name)
}
