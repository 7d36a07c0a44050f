// Command gpu-segmenter is the model server: it answers encode, segment, segment_encode, score,
// link, fuse, detect and info requests over NATS with the models of a pack, on a CPU or with CUDA.
// It is the only program of Sluice that links ONNX Runtime. Several instances may run at the same
// time.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/alecthomas/kong"
	"github.com/nats-io/nats.go"

	"github.com/sluice-rag/sluice/cmd/internal/health"
	"github.com/sluice-rag/sluice/internal/bus"
	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/inference"
	"github.com/sluice-rag/sluice/internal/lifecycle"
	"github.com/sluice-rag/sluice/internal/memory"
	"github.com/sluice-rag/sluice/internal/telemetry"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// version is set by the build.
var version = "dev"

// grace is the most time that the server takes to stop, including the requests in progress.
const grace = 20 * time.Second

type settings struct {
	config.GPUSegmenter
	WithParent bool             `help:"End when standard input closes. A parent keeps a pipe open to it, so that this process never outlives it."`
	Batch      int              `hidden:"" help:"Most texts that share one run of a graph, for measuring what sharing saves; 0 is the usual."`
	Check      bool             `help:"Load the model pack, try it, print a report in JSON, and end. NATS is not needed."`
	Version    kong.VersionFlag `help:"Print the version."`
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "gpu-segmenter:", err)
		os.Exit(1)
	}
}

func run() error {
	var s settings
	source, err := config.Read(os.Args[1:]) // warnings of former settings are ignored: gpu-segmenter has none
	if err != nil {
		return err
	}
	parser, err := kong.New(&s, kong.Name("gpu-segmenter"), kong.Vars{"version": "gpu-segmenter " + version}, source,
		kong.Description("The model server of Sluice: answers over NATS with the models of a pack."))
	if err != nil {
		return err
	}
	if _, err := parser.Parse(source.Args); err != nil {
		parser.FatalIfErrorf(err)
	}
	if s.Check {
		return check(context.Background(), s.Model, os.Stdout)
	}
	if err := config.Require([2]string{"SLUICE_NATS_URL", s.NATSURL}); err != nil {
		return err
	}
	log, err := telemetry.NewLogger(os.Stderr, s.LogLevel, s.LogFormat)
	if err != nil {
		return err
	}
	slog.SetDefault(log)
	memory.KeepHeadroom()

	ctx := context.Background()
	if s.WithParent {
		ctx = lifecycle.WithParent(ctx, grace)
	}
	tel, err := telemetry.Setup(ctx, "gpu-segmenter", version)
	if err != nil {
		return err
	}
	if s.SecondShare < 1 || s.SecondShare > 100 {
		return schema.Invalid("SLUICE_SECOND_SHARE", "%d is not a percentage between 1 and 100", s.SecondShare)
	}
	if s.SecondPack != "" {
		s.ModelPack = s.SecondPack
	}
	if err := find(&s.Model); err != nil {
		return err
	}
	started := time.Now()
	service := compose(s, tel)
	return lifecycle.Main(ctx, log, grace, service, func() {
		log.Info("the model server is ready", "pack", s.ModelPack, "provider", s.ModelProvider, "took", time.Since(started).Round(time.Millisecond))
	})
}

// gateway calls models behind an API through llm-gateway.
type gateway struct{ nc *nats.Conn }

// Encode implements inference.Gateway.
func (g gateway) Encode(ctx context.Context, r wire.RemoteEncodeRequest) (wire.RemoteEncodeReply, error) {
	return bus.Request[wire.RemoteEncodeReply](ctx, g.nc, wire.RemoteEncodeSubject, r)
}

// Rerank implements inference.Gateway.
func (g gateway) Rerank(ctx context.Context, r wire.RemoteRerankRequest) (wire.RemoteRerankReply, error) {
	return bus.Request[wire.RemoteRerankReply](ctx, g.nc, wire.RemoteRerankSubject, r)
}

// compose returns one service that consists of telemetry, the model, the connection to NATS, the
// server that answers requests, and the health checks.
func compose(s settings, tel *telemetry.Telemetry) lifecycle.Service {
	var (
		nc    *nats.Conn
		model *inference.Model
	)
	parts := []lifecycle.Service{
		lifecycle.NewResource("telemetry", tel.Start, tel.Stop),
		// Before NATS, so that an error in the pack is reported at once.
		lifecycle.NewResource("model", func(context.Context) (err error) {
			o := options(s.Model)
			if o.Second = s.SecondPack != ""; o.Second && o.Threads == 0 {
				o.Threads = 1 // fewer cores at a time, so that the share is kept more evenly
			}
			model, err = inference.Open(o)
			return err
		}, func(context.Context) error { return model.Close() }),
		// The server answers no request, and is not ready, until each graph has run once.
		lifecycle.NewResource("first run of the model", func(ctx context.Context) error {
			report, err := model.Try(ctx)
			for _, problem := range report.Problems {
				slog.WarnContext(ctx, "the model pack gives different results here than where it was built", "problem", problem)
			}
			return err
		}, nil),
		lifecycle.NewResource("connection to NATS", func(ctx context.Context) (err error) {
			ctx, cancel := context.WithTimeout(ctx, lifecycle.Connecting)
			defer cancel()
			nc, err = bus.Connect(ctx, bus.Options{URL: s.NATSURL, Name: "gpu-segmenter", Program: wire.ProgramGPUSegmenter, Files: bus.Files(s.NATSFiles)})
			return err
		}, func(context.Context) error {
			nc.Close()
			return nil
		}),
	}
	share := 0.0
	if s.SecondPack != "" {
		share = float64(s.SecondShare) / 100
	}
	serving := lifecycle.NewFunc("model server", func(ctx context.Context) (lifecycle.Run, error) {
		server := inference.NewServer(nc, model, inference.ServerOptions{Batch: s.Batch, Gateway: gateway{nc}, Second: s.SecondPack != "", Share: share})
		if err := server.Start(ctx); err != nil {
			return lifecycle.Run{}, err
		}
		stopStatus, err := bus.ServeStatus(nc, server.State)
		if err != nil {
			return lifecycle.Run{}, errors.Join(err, server.Stop(ctx))
		}
		return lifecycle.Run{Done: server.Done(), Err: server.Err, Stop: func(ctx context.Context) error {
			defer stopStatus()
			return server.Stop(ctx)
		}}, nil
	})
	healthServer := health.New(s.HealthListen, serving, health.Checks{
		"nats": func(ctx context.Context) error { return nc.FlushWithContext(ctx) },
	}, tel.Handler())
	connectionWatch := lifecycle.NewFunc("watch over NATS", func(ctx context.Context) (lifecycle.Run, error) {
		watch := bus.WatchConnection(nc, bus.DisconnectLimit)
		if err := watch.Start(ctx); err != nil {
			return lifecycle.Run{}, err
		}
		return lifecycle.Run{Done: watch.Done(), Err: watch.Err, Stop: watch.Stop}, nil
	})
	return lifecycle.NewGroup("gpu-segmenter", grace, append(parts, connectionWatch, serving, healthServer)...)
}
