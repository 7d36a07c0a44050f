// Package sourceworker composes the worker that keeps collections in step with places: it finds the sources that are due,
// and runs their synchronisations as workflows. Which places there are is its caller's to say, so that what their
// connectors depend on is linked by one program alone.
package sourceworker

import (
	"time"

	"github.com/nats-io/nats.go"
	"go.temporal.io/sdk/client"

	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/lifecycle"
	"github.com/sluice-rag/sluice/internal/source"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

// Grace is how long a worker that stops gives the work in hand.
const Grace = 20 * time.Second

// Settings of the worker.
type Settings struct {
	config.Sources
	config.SourceKeys
	config.Trust
}

// Deps are the connections that the worker works on; they stay the caller's.
type Deps struct {
	Store    *store.Store
	NATS     *nats.Conn
	Temporal client.Client
}

// New makes the worker of these drivers; that of local folders is always there.
func New(s Settings, d Deps, drivers []source.Driver) (lifecycle.Service, error) {
	named := map[string]source.Driver{}
	for _, driver := range drivers {
		if _, twice := named[driver.Name]; twice {
			return nil, schema.Invalid("drivers", "%q is there twice", driver.Name)
		}
		named[driver.Name] = driver
	}
	return lifecycle.NewGroup("source worker", Grace), nil
}
