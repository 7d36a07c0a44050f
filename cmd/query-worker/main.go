// Command query-worker answers searches and questions: over NATS at once, and as workflows on
// Temporal. Any number may run.
package main

import (
	"context"
	"time"

	"github.com/sluice-rag/sluice/cmd/internal/program"
	"github.com/sluice-rag/sluice/cmd/internal/queryworker"
	"github.com/sluice-rag/sluice/internal/config"
)

// version is set by the build.
var version = "dev"

// grace is how long work in progress may take to finish.
const grace = 25 * time.Second

func worker() program.Worker {
	return program.Worker{Name: "query-worker", Version: version, Description: "Answers searches and questions of Sluice."}
}

func main() { program.Main[queryCommand](worker()) }

type queryCommand struct {
	config.QueryWorker
}

// Run runs the worker until it is told to stop.
func (r *queryCommand) Run() error {
	ctx := context.Background()
	parts, err := program.Connect(ctx, worker(), program.Needs{Log: r.Log, Database: r.Database, Replica: r.DatabaseReplica, NATS: r.NATS, Temporal: &r.Temporal})
	if err != nil {
		return err
	}
	defer parts.Close()
	signer, trusted, err := program.Signatures(r.Signatures)
	if err != nil {
		return err
	}
	service, err := queryworker.New(queryworker.Settings{Answering: r.Answering, Streams: r.Streams, Webhooks: r.Webhooks, Public: r.Public},
		queryworker.Deps{Store: parts.Store, Replica: parts.Replica, NATS: parts.NATS, Temporal: parts.Temporal, Signer: signer, Trusted: trusted})
	if err != nil {
		return err
	}
	return parts.Serve(ctx, r.HealthListen, grace, service)
}
