// Command ingest-worker takes documents from the queue to ready: it relays the
// outbox, parses, segments, encodes and writes, and queues again what got lost.
// Any number may run.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/alecthomas/kong"

	"github.com/sluice-rag/sluice/cmd/internal/health"
	"github.com/sluice-rag/sluice/cmd/internal/ingestworker"
	"github.com/sluice-rag/sluice/internal/bus"
	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/durable"
	"github.com/sluice-rag/sluice/internal/lifecycle"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/telemetry"
)

// version is set by the build.
var version = "dev"

const (
	name       = "ingest-worker"
	connecting = time.Minute // for Postgres, NATS and Temporal to answer at the start
)

type settings struct {
	Run         run              `cmd:"" default:"withargs" help:"Run the worker."`
	Healthcheck healthcheck      `cmd:"" help:"Ask the worker that runs on this machine whether it is ready."`
	Version     kong.VersionFlag `help:"Print the version."`
}

type run struct {
	config.IngestWorker
}

type healthcheck struct {
	config.Health
}

func main() {
	if ingestworker.RunIfParseChild() {
		return
	}
	file, err := config.FromFile(config.Known())
	if err != nil {
		fail(err)
	}
	var s settings
	command := kong.Parse(&s, kong.Name(name), kong.Vars{"version": name + " " + version}, file,
		kong.Description("Takes documents of Sluice from the queue to ready."))
	if err := command.Run(); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, name+":", err)
	os.Exit(1)
}

// Run asks the running worker.
func (h *healthcheck) Run() error { return health.Check(context.Background(), h.HealthListen) }

// Run runs the worker until it is told to end.
func (r *run) Run() error {
	log, err := telemetry.NewLogger(os.Stderr, r.LogLevel, r.LogFormat)
	if err != nil {
		return err
	}
	slog.SetDefault(log)
	ctx := context.Background()
	observed, err := telemetry.Setup(ctx, name, version)
	if err != nil {
		return err
	}
	defer observed.Stop(ctx) //nolint:errcheck // the process ends
	starting, cancel := context.WithTimeout(ctx, connecting)
	defer cancel()
	db, err := store.Open(starting, r.DatabaseURL, store.Options{Name: name, MaxConns: r.DatabaseConnections})
	if err != nil {
		return err
	}
	defer db.Close()
	if err := db.CheckSchema(starting); err != nil {
		return err
	}
	nc, err := bus.Connect(starting, bus.Options{URL: r.NATSURL, Name: name})
	if err != nil {
		return err
	}
	defer nc.Close()
	tc, err := durable.Dial(starting, durable.Options{Address: r.TemporalAddress, Namespace: r.TemporalNamespace, Name: name})
	if err != nil {
		return err
	}
	defer tc.Close()
	worker, err := ingestworker.New(ingestworker.Settings{Ingest: r.Ingest, Parse: r.Parse, Streams: r.Streams},
		ingestworker.Deps{Store: db, NATS: nc, Temporal: tc})
	if err != nil {
		return err
	}
	shown := health.New(r.HealthListen, worker, health.Checks{
		"database": db.Ping,
		"nats":     nc.FlushWithContext,
		"temporal": func(ctx context.Context) error { return durable.Check(ctx, tc) },
	}, observed.Handler())
	grace := ingestworker.Grace + 5*time.Second
	return lifecycle.Main(ctx, log, grace, lifecycle.NewGroup(name, grace, worker, shown), func() {
		log.Info("the ingest worker is ready")
	})
}
