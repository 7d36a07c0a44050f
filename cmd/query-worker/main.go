// Command query-worker answers searches and questions: over NATS at once, and
// as workflows on Temporal. Any number may run.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/alecthomas/kong"

	"github.com/sluice-rag/sluice/cmd/internal/health"
	"github.com/sluice-rag/sluice/cmd/internal/queryworker"
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
	grace      = 25 * time.Second // to finish the work in hand
	connecting = time.Minute      // for Postgres, NATS and Temporal to answer at the start
)

type settings struct {
	Run         run              `cmd:"" default:"withargs" help:"Run the worker."`
	Healthcheck healthcheck      `cmd:"" help:"Ask the worker that runs on this machine whether it is ready."`
	Version     kong.VersionFlag `help:"Print the version."`
}

type run struct {
	config.QueryWorker
}

type healthcheck struct {
	config.Health
}

func main() {
	file, err := config.FromFile(config.Known())
	if err != nil {
		fmt.Fprintln(os.Stderr, "query-worker:", err)
		os.Exit(1)
	}
	var s settings
	command := kong.Parse(&s, kong.Name("query-worker"), kong.Vars{"version": "query-worker " + version}, file,
		kong.Description("Answers searches and questions of Sluice."))
	if err := command.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "query-worker:", err)
		os.Exit(1)
	}
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
	observed, err := telemetry.Setup(ctx, "query-worker", version)
	if err != nil {
		return err
	}
	defer observed.Stop(context.WithoutCancel(ctx)) //nolint:errcheck // the process ends
	starting, cancel := context.WithTimeout(ctx, connecting)
	defer cancel()
	db, err := store.Open(starting, r.DatabaseURL, store.Options{Name: "query-worker", MaxConns: r.DatabaseConnections})
	if err != nil {
		return err
	}
	defer db.Close()
	if err := db.CheckSchema(starting); err != nil {
		return err
	}
	nc, err := bus.Connect(starting, bus.Options{URL: r.NATSURL, Name: "query-worker"})
	if err != nil {
		return err
	}
	defer nc.Close()
	tc, err := durable.Dial(starting, durable.Options{Address: r.TemporalAddress, Namespace: r.TemporalNamespace, Name: "query-worker"})
	if err != nil {
		return err
	}
	defer tc.Close()
	worker, err := queryworker.New(queryworker.Settings{Query: r.Query, Streams: r.Streams}, queryworker.Deps{Store: db, NATS: nc, Temporal: tc})
	if err != nil {
		return err
	}
	shown := health.New(r.HealthListen, worker, health.Checks{
		"database": db.Ping,
		"nats":     func(ctx context.Context) error { return nc.FlushWithContext(ctx) },
		"temporal": func(ctx context.Context) error { return durable.Check(ctx, tc) },
	}, observed.Handler())
	return lifecycle.Main(ctx, log, grace, lifecycle.NewGroup("query-worker", grace, worker, shown), func() {
		log.Info("the query worker is ready")
	})
}
