// Command ingest-worker processes documents from the queue until they are ready: it relays the
// outbox, claims versions, runs their stages and queues stuck versions again. Any number may run.
package main

import (
	"context"
	"time"

	"github.com/sluice-rag/sluice/cmd/internal/ingestworker"
	"github.com/sluice-rag/sluice/cmd/internal/program"
	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/store"
)

// version is set by the build.
var version = "dev"

func worker() program.Worker {
	return program.Worker{Name: "ingest-worker", Version: version, Description: "Takes documents of Sluice from the queue to ready."}
}

func main() {
	if ingestworker.RunIfParseChild() {
		return
	}
	program.Main[workerCommand](worker())
}

type workerCommand struct {
	config.IngestWorker
}

// Run runs the worker until it is told to stop.
func (r *workerCommand) Run() error {
	ctx := context.Background()
	parts, err := program.Connect(ctx, worker(), program.Needs{
		Log: r.Log, Database: r.Database, NATS: r.NATS, Temporal: &r.Temporal, Lane: store.Batch, Vectors: r.DatabaseVectors, Blobs: r.Blobs,
	})
	if err != nil {
		return err
	}
	defer parts.Close()
	service, err := ingestworker.New(ingestworker.Settings{Ingest: r.Ingest, Retention: r.Retention, Parse: r.Parse, Streams: r.Streams},
		ingestworker.Deps{Store: parts.Store, NATS: parts.NATS, Temporal: parts.Temporal})
	if err != nil {
		return err
	}
	return parts.Serve(ctx, r.HealthListen, ingestworker.Grace+5*time.Second, service)
}
