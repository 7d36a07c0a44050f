package sourceworker

// The program source-worker: its settings, its connections and its end.

import (
	"context"
	"time"

	"github.com/alecthomas/kong"

	"github.com/sluice-rag/sluice/cmd/internal/program"
	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/lifecycle"
	"github.com/sluice-rag/sluice/internal/source"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema/wire"
)

// command has the settings of the program. Main binds the drivers.
type command struct {
	config.SourceWorker
	WithParent bool `help:"End when standard input closes. A parent keeps a pipe open to it, so that this process never outlives it."`
}

// Main runs the program source-worker with these drivers and the driver of folders. If that fails,
// it ends the process with status 1.
func Main(version string, drivers []source.Driver) {
	w := program.Worker{Name: string(wire.ProgramSourceWorker), Version: version, Description: "Keeps collections of Sluice in step with places."}
	program.Main[command](w, kong.Bind(w, drivers))
}

// Run runs the worker until it is told to stop.
func (c *command) Run(w program.Worker, drivers []source.Driver) error {
	trusted, err := program.Trusted(c.Trust)
	if err != nil {
		return err
	}
	ctx := context.Background()
	if c.WithParent {
		ctx = lifecycle.WithParent(ctx, Grace)
	}
	parts, err := program.Connect(ctx, w, program.Needs{
		Log: c.Log, Database: c.Database, NATS: c.NATS, Temporal: &c.Temporal, Lane: store.Batch, Blobs: c.Blobs,
	})
	if err != nil {
		return err
	}
	defer parts.Close()
	service, err := New(Settings{Synchronisation: c.Synchronisation, SourceKeys: c.SourceKeys},
		Deps{Store: parts.Store, NATS: parts.NATS, Temporal: parts.Temporal, Trusted: trusted}, drivers)
	if err != nil {
		return err
	}
	return parts.Serve(ctx, c.HealthListen, Grace+5*time.Second, service)
}
