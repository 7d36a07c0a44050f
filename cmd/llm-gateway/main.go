// Command llm-gateway is the only way to a language model: it answers completion requests over NATS
// and keeps every reply. Any number may run.
package main

import (
	"context"
	"time"

	"github.com/sluice-rag/sluice/cmd/internal/llmgateway"
	"github.com/sluice-rag/sluice/cmd/internal/program"
	"github.com/sluice-rag/sluice/internal/config"
)

// version is set by the build.
var version = "dev"

// grace is how long work in progress may take to finish.
const grace = 25 * time.Second

func worker() program.Worker {
	return program.Worker{Name: "llm-gateway", Version: version, Description: "The language model gateway of Sluice."}
}

func main() { program.Main[gatewayCommand](worker()) }

type gatewayCommand struct {
	config.LLMGateway
}

// Run runs the gateway until it is told to stop.
func (r *gatewayCommand) Run() error {
	if err := config.Require([2]string{"SLUICE_DATABASE_URL", r.DatabaseURL}, [2]string{"SLUICE_NATS_URL", r.NATSURL}); err != nil {
		return err
	}
	ctx := context.Background()
	parts, err := program.Connect(ctx, worker(), program.Needs{Log: r.Log, Database: r.Database, NATS: r.NATS})
	if err != nil {
		return err
	}
	defer parts.Close()
	_, trusted, err := program.Signatures(config.Signatures{Trust: r.Trust})
	if err != nil {
		return err
	}
	service, err := llmgateway.New(r.LLM, llmgateway.Deps{Store: parts.Store, NATS: parts.NATS, Trusted: trusted})
	if err != nil {
		return err
	}
	return parts.Serve(ctx, r.HealthListen, grace, service)
}
