// Package llmgateway composes the language model gateway: its providers, the
// ledger, and the service that answers over NATS.
package llmgateway

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sluice-rag/sluice/internal/bus"
	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/lifecycle"
	"github.com/sluice-rag/sluice/internal/llm"
	"github.com/sluice-rag/sluice/internal/modelclient"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema/wire"
)

// Deps are the connections that the gateway works on; they stay the caller's.
// A completion in progress holds one of the store's connections.
type Deps struct {
	Store *store.Store
	NATS  *nats.Conn
}

// Concurrency is how many completions one gateway makes at once.
const Concurrency = 12

// grace is how long the parts get to stop when one of them fails.
const grace = 20 * time.Second

// New makes the gateway. The provider "extractive" is always there, for whoever
// asks for it; which one answers by default is the settings' choice.
func New(settings config.LLM, d Deps) (lifecycle.Service, error) {
	models := modelclient.New(d.NATS, modelclient.Options{})
	providers := []llm.Provider{llm.NewExtractive(models, models)}
	var parts []lifecycle.Service
	if Provider(settings) == "openai" {
		p, err := llm.NewOpenAI(llm.OpenAIOptions{BaseURL: settings.LLMBaseURL, Key: settings.LLMAPIKey, Model: settings.LLMModel,
			Timeout: settings.LLMTimeout, MaxTokens: settings.LLMMaxTokens})
		if err != nil {
			return nil, err
		}
		providers = []llm.Provider{p, providers[0]}
		parts = append(parts, lifecycle.NewResource("connections to the language model", nil, func(context.Context) error {
			p.Close()
			return nil
		}))
	}
	gateway, err := llm.NewGateway(d.Store.Ledger(), providers...)
	if err != nil {
		return nil, err
	}
	serve := bus.Serve(d.NATS, bus.ServeOptions{Subject: wire.LLMSubject, Group: wire.LLMGroup, Concurrency: Concurrency},
		gateway.Complete, llm.Failure)
	return lifecycle.NewGroup("llm gateway", grace, append(parts, serve)...), nil
}

// Provider is the name of the provider that answers by default under these
// settings.
func Provider(settings config.LLM) string {
	if settings.LLMProvider != "auto" && settings.LLMProvider != "" {
		return settings.LLMProvider
	}
	if settings.LLMAPIKey != "" || settings.LLMBaseURL != "" {
		return "openai"
	}
	return "extractive"
}
