// Command llm-gateway is the only way to a language model: it answers
// completion requests over NATS and keeps every reply. Any number may run.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/alecthomas/kong"

	"github.com/sluice-rag/sluice/cmd/internal/health"
	"github.com/sluice-rag/sluice/cmd/internal/llmgateway"
	"github.com/sluice-rag/sluice/internal/bus"
	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/lifecycle"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/telemetry"
)

// version is set by the build.
var version = "dev"

const (
	grace      = 25 * time.Second // to finish the work in hand
	connecting = time.Minute      // for Postgres and NATS to answer at the start
)

type settings struct {
	Run         run              `cmd:"" default:"withargs" help:"Run the gateway."`
	Healthcheck healthcheck      `cmd:"" help:"Ask the gateway that runs on this machine whether it is ready."`
	Version     kong.VersionFlag `help:"Print the version."`
}

type run struct {
	config.LLMGateway
}

type healthcheck struct {
	config.Health
}

func main() {
	file, err := config.FromFile(config.Known())
	if err != nil {
		fmt.Fprintln(os.Stderr, "llm-gateway:", err)
		os.Exit(1)
	}
	var s settings
	command := kong.Parse(&s, kong.Name("llm-gateway"), kong.Vars{"version": "llm-gateway " + version}, file,
		kong.Description("The language model gateway of Sluice."))
	if err := command.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "llm-gateway:", err)
		os.Exit(1)
	}
}

// Run asks the running gateway.
func (h *healthcheck) Run() error { return health.Check(context.Background(), h.HealthListen) }

// Run runs the gateway until it is told to end.
func (r *run) Run() error {
	if err := config.Require([2]string{"SLUICE_DATABASE_URL", r.DatabaseURL}, [2]string{"SLUICE_NATS_URL", r.NATSURL}); err != nil {
		return err
	}
	log, err := telemetry.NewLogger(os.Stderr, r.LogLevel, r.LogFormat)
	if err != nil {
		return err
	}
	slog.SetDefault(log)
	ctx := context.Background()
	observed, err := telemetry.Setup(ctx, "llm-gateway", version)
	if err != nil {
		return err
	}
	defer observed.Stop(context.WithoutCancel(ctx)) //nolint:errcheck // the process ends
	starting, cancel := context.WithTimeout(ctx, connecting)
	defer cancel()
	// Every completion in progress holds a connection.
	connections := max(r.DatabaseConnections, llmgateway.Concurrency+2)
	db, err := store.Open(starting, r.DatabaseURL, store.Options{Name: "llm-gateway", MaxConns: connections})
	if err != nil {
		return err
	}
	defer db.Close()
	if err := db.CheckSchema(starting); err != nil {
		return err
	}
	nc, err := bus.Connect(starting, bus.Options{URL: r.NATSURL, Name: "llm-gateway"})
	if err != nil {
		return err
	}
	defer nc.Close()
	gateway, err := llmgateway.New(r.LLM, llmgateway.Deps{Store: db, NATS: nc})
	if err != nil {
		return err
	}
	shown := health.New(r.HealthListen, gateway, health.Checks{
		"database": db.Ping,
		"nats":     func(ctx context.Context) error { return nc.FlushWithContext(ctx) },
	}, observed.Handler())
	return lifecycle.Main(ctx, log, grace, lifecycle.NewGroup("llm-gateway", grace, gateway, shown), func() {
		log.Info("the language model gateway is ready", "provider", llmgateway.Provider(r.LLM))
	})
}
