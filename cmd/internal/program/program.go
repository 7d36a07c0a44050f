// Package program is what the worker programs have in common: reading settings, connecting, serving
// health checks and stopping. What a worker does is composed in other packages.
package program

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/alecthomas/kong"
	"github.com/nats-io/nats.go"
	"go.temporal.io/sdk/client"

	"github.com/sluice-rag/sluice/cmd/internal/health"
	"github.com/sluice-rag/sluice/internal/bus"
	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/durable"
	"github.com/sluice-rag/sluice/internal/lifecycle"
	"github.com/sluice-rag/sluice/internal/memory"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/telemetry"
	"github.com/sluice-rag/sluice/schema/wire"
)

// Worker describes a worker program.
type Worker struct {
	Name        string // a wire.Program
	Version     string
	Description string
}

// commandLine has the worker's own settings in Run, which must have a method Run() error.
type commandLine[R any] struct {
	Run         R                `cmd:"" default:"withargs" help:"Run the worker."`
	Healthcheck healthcheck      `cmd:"" help:"Ask the worker that runs on this machine whether it is ready."`
	Version     kong.VersionFlag `help:"Print the version."`
}

type healthcheck struct {
	config.Health
}

// Run checks the running worker.
func (h *healthcheck) Run() error { return health.Check(context.Background(), h.HealthListen) }

// Main reads the settings R from flags, environment and file, and runs their method Run with the
// bindings of options. If that fails, it ends the process with status 1.
func Main[R any](w Worker, options ...kong.Option) {
	if err := run[R](w, os.Args[1:], options...); err != nil {
		fmt.Fprintln(os.Stderr, w.Name+":", err)
		os.Exit(1)
	}
}

func run[R any](w Worker, args []string, options ...kong.Option) error {
	source, err := config.Read(args)
	if err != nil {
		return err
	}
	for _, warning := range source.Warnings {
		fmt.Fprintln(os.Stderr, w.Name+": warning:", warning)
	}
	parser, err := kong.New(&commandLine[R]{}, append(options, kong.Name(w.Name), kong.Description(w.Description),
		kong.Vars{"version": w.Name + " " + w.Version}, source)...)
	if err != nil {
		return err
	}
	command, err := parser.Parse(source.Args)
	if err != nil {
		return err
	}
	memory.KeepHeadroom()
	return command.Run()
}

// Needs describe what a worker connects to.
type Needs struct {
	Log      config.Log
	Database config.Database
	Replica  config.DatabaseReplica // no replica if it has no URL
	NATS     config.NATS
	Temporal *config.Temporal // nil: not needed
	Lane     store.Lane       // of the worker's statements; store.Interactive by default
	Vectors  config.DatabaseVectors
	Blobs    config.Blobs // zero: the worker reads no blobs
}

// Parts are a worker's connections. Close them when the worker has stopped.
type Parts struct {
	Store    *store.Store
	Replica  *store.Replica // nil: there is none
	NATS     *nats.Conn
	Temporal client.Client // nil if not needed

	worker   Worker
	log      *slog.Logger
	observed *telemetry.Telemetry
	closing  []func()
}

// Connect sets up logging and telemetry and connects. It returns an error if this build does not
// support the database's schema version.
func Connect(ctx context.Context, w Worker, n Needs) (_ *Parts, err error) {
	p := &Parts{worker: w}
	defer func() {
		if err != nil {
			p.Close()
		}
	}()
	if p.log, err = telemetry.NewLogger(os.Stderr, n.Log.LogLevel, n.Log.LogFormat); err != nil {
		return nil, err
	}
	slog.SetDefault(p.log)
	if p.observed, err = telemetry.Setup(ctx, w.Name, w.Version); err != nil {
		return nil, err
	}
	p.closing = append(p.closing, func() {
		if err := p.observed.Stop(context.WithoutCancel(ctx)); err != nil {
			p.log.Warn("cannot send the remaining telemetry", "error", err)
		}
	})
	starting, cancel := context.WithTimeout(ctx, lifecycle.Connecting)
	defer cancel()
	options, err := WithBlobs(store.Options{
		Name: w.Name, MaxConns: n.Database.DatabaseConnections, Lane: n.Lane, VectorURL: n.Vectors.DatabaseVectorURL,
		IndexBuilds: n.Vectors.IndexBuilds, Pooled: n.Database.DatabasePooled, DirectURL: n.Database.DatabaseDirectURL,
	}, n.Blobs)
	if err != nil {
		return nil, err
	}
	if p.Store, err = store.Open(starting, n.Database.DatabaseURL, options); err != nil {
		return nil, err
	}
	p.closing = append(p.closing, p.Store.Close)
	if err := p.Store.CheckSchema(starting); err != nil {
		return nil, err
	}
	if n.Replica.DatabaseReplicaURL != "" {
		if p.Replica, err = store.OpenReplica(ctx, p.Store, n.Replica.DatabaseReplicaURL, n.Replica.DatabaseReplicaLag, store.Options{
			Name: w.Name, MaxConns: n.Database.DatabaseConnections, Lane: n.Lane}); err != nil {
			return nil, err
		}
		p.closing = append(p.closing, p.Replica.Close)
	}
	if p.NATS, err = bus.Connect(starting, bus.Options{
		URL: n.NATS.NATSURL, Name: w.Name, Program: wire.Program(w.Name), Files: bus.Files(n.NATS.NATSFiles)}); err != nil {
		return nil, err
	}
	p.closing = append(p.closing, p.NATS.Close)
	if n.Temporal == nil {
		return p, nil
	}
	if p.Temporal, err = durable.Dial(starting, TemporalOptions(*n.Temporal, w.Name)); err != nil {
		return nil, err
	}
	p.closing = append(p.closing, p.Temporal.Close)
	return p, nil
}

// Close closes the connections in reverse order.
func (p *Parts) Close() {
	for _, f := range slices.Backward(p.closing) {
		f()
	}
}

// Serve runs service, with health checks on listen, until the process is told to stop or has been
// without NATS for bus.DisconnectLimit. Work in progress then has grace to finish.
func (p *Parts) Serve(ctx context.Context, listen string, grace time.Duration, service lifecycle.Service) error {
	checks := health.Checks{"database": p.Store.Ping, "nats": func(ctx context.Context) error {
		if !p.NATS.IsConnected() {
			return errors.New("not connected: " + p.NATS.Status().String())
		}
		return p.NATS.FlushWithContext(ctx)
	}}
	if objects := p.Store.Options().Objects; objects != nil {
		checks["s3"] = objects.Check
	}
	if p.Temporal != nil {
		checks["temporal"] = func(ctx context.Context) error { return durable.Check(ctx, p.Temporal) }
	}
	shown := health.New(listen, service, checks, p.observed.Handler())
	return lifecycle.Main(ctx, p.log, grace, lifecycle.NewGroup(p.worker.Name, grace, bus.WatchConnection(p.NATS, bus.DisconnectLimit), service, shown), func() {
		p.log.Info(p.worker.Name + " is ready")
	})
}
