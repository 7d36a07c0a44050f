// Package llmgateway composes the language model gateway: its providers, the
// ledger, and the service that answers over NATS.
package llmgateway

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sluice-rag/sluice/internal/bus"
	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/lifecycle"
	"github.com/sluice-rag/sluice/internal/llm"
	"github.com/sluice-rag/sluice/internal/modelclient"
	"github.com/sluice-rag/sluice/internal/signature"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/ledger"
	"github.com/sluice-rag/sluice/internal/store/questions"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// Deps are the connections that the gateway works on; they stay the caller's.
type Deps struct {
	Store *store.Store
	NATS  *nats.Conn
	// Trusted are the keys of those who may ask; nil: all.
	Trusted *signature.Trusted
}

// calls is how many calls one gateway makes at once where no setting says so.
const calls = 32

// remoteConcurrency is how many requests to models behind an API one gateway works on at
// once, remoteBulk how many of them that nobody waits for.
const (
	remoteConcurrency = 8
	remoteBulk        = 6
)

// stopShare is the part of the time to stop that completions in progress get to
// end; then they are cancelled.
const stopShare = 0.75

// cacheEntries is how many replies are kept of one tenant at most, the newest ones.
const cacheEntries = 10_000

// extractivePrice is what extractive's tokens are stated to cost, though nobody is paid for them
// and no budget counts them: so plans can be compared without a language model.
var extractivePrice = llm.Price{Input: 0.10, Output: 0.40}

// grace is how long the parts get to stop when one of them fails.
const grace = 20 * time.Second

// New makes the gateway. The provider "extractive" is always there, for whoever
// asks for it; which one answers by default, and which ones stand in for it, is
// the settings' choice.
func New(settings config.LLM, d Deps) (lifecycle.Service, error) {
	names := []string{Provider(settings)}
	// A variable that is set to nothing is a list of one empty name.
	settings.LLMFallback = slices.DeleteFunc(slices.Clone(settings.LLMFallback), func(s string) bool { return s == "" })
	for _, name := range append(slices.Clone(settings.LLMFallback), "extractive") {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	books := ledger.New(d.Store)
	o := llm.Options{Ledger: books, Accounts: books, Fallback: settings.LLMFallback, Deltas: deltas{d.NATS}, Prices: map[string]llm.Price{
		"openai": llm.Price(settings.LLMPrice), "anthropic": llm.Price(settings.AnthropicPrice), "extractive": extractivePrice}}
	var age time.Duration // without a cache, what an earlier one left goes
	if settings.LLMCacheAge > 0 {
		age = settings.LLMCacheAge
		o.Cache = ledger.NewReplyCache(d.Store, age, cacheEntries)
	}
	parts := []lifecycle.Service{forgetCached(questions.New(d.Store), d.Store, age, forgetEvery)}
	for _, name := range names {
		p, err := provider(name, settings, d)
		if err != nil {
			return nil, err
		}
		o.Providers = append(o.Providers, p)
		if c, ok := p.(interface{ Close() }); ok {
			parts = append(parts, lifecycle.NewResource("connections to "+name, nil, func(context.Context) error {
				c.Close()
				return nil
			}))
		}
	}
	gateway, err := llm.NewGateway(o)
	if err != nil {
		return nil, err
	}
	remote, err := llm.NewRemoteModels(llm.RemoteOptions{Accounts: books, Timeout: settings.LLMTimeout, Bulk: remoteBulk,
		Embed: llm.RemoteServer{URL: settings.EmbedURL, Key: settings.EmbedKey}, EmbedPrice: settings.EmbedPrice,
		Rerank: llm.RemoteServer{URL: settings.RerankURL, Key: settings.RerankKey}, RerankPrice: settings.RerankPrice})
	if err != nil {
		return nil, err
	}
	parts = append(parts, lifecycle.NewResource("connections to models behind an API", nil, func(context.Context) error {
		remote.Close()
		return nil
	}), bus.Serve(d.NATS, bus.ServeOptions{Subject: wire.RemoteEncodeSubject, Group: wire.LLMGroup, Concurrency: remoteConcurrency, StopShare: stopShare},
		remote.Encode, llm.EncodeFailure),
		bus.Serve(d.NATS, bus.ServeOptions{Subject: wire.RemoteRerankSubject, Group: wire.LLMGroup, Concurrency: remoteConcurrency, StopShare: stopShare},
			remote.Rerank, llm.RerankFailure))
	serve := bus.Serve(d.NATS, bus.ServeOptions{Subject: wire.LLMSubject, Group: wire.LLMGroup, Concurrency: cmp.Or(settings.LLMCalls, calls), StopShare: stopShare, Trusted: d.Trusted},
		gateway.Complete, llm.Failure)
	return lifecycle.NewGroup("llm gateway", grace, append(parts, serve)...), nil
}

// provider makes a provider by its name.
func provider(name string, settings config.LLM, d Deps) (llm.Provider, error) {
	switch name {
	case "openai":
		return llm.NewOpenAI(llm.OpenAIOptions{BaseURL: settings.LLMBaseURL, Key: settings.LLMAPIKey, Model: settings.LLMModel,
			Timeout: settings.LLMTimeout, MaxTokens: settings.LLMMaxTokens, ReasoningTokens: settings.LLMReasoningTokens, Format: settings.LLMFormat})
	case "anthropic":
		return llm.NewAnthropic(llm.AnthropicOptions{BaseURL: settings.AnthropicBaseURL, Key: settings.AnthropicAPIKey, Model: settings.AnthropicModel,
			Timeout: settings.LLMTimeout, MaxTokens: settings.LLMMaxTokens, ReasoningTokens: settings.LLMReasoningTokens})
	case "extractive":
		models := modelclient.New(d.NATS, modelclient.Options{})
		return llm.NewExtractive(models, models), nil
	}
	return nil, schema.Invalid("SLUICE_LLM_FALLBACK", "there is no provider %q; there are openai, anthropic and extractive", name)
}

// Provider is the name of the provider that answers by default under these
// settings.
func Provider(settings config.LLM) string {
	switch {
	case settings.LLMProvider != "auto" && settings.LLMProvider != "":
		return settings.LLMProvider
	case settings.LLMAPIKey != "" || settings.LLMBaseURL != "":
		return "openai"
	case settings.AnthropicAPIKey != "":
		return "anthropic"
	}
	return "extractive"
}

// deltas publishes the pieces of answers, without waiting for anybody.
type deltas struct{ nc *nats.Conn }

// Send implements llm.Deltas.
func (d deltas) Send(subject string, x wire.LLMDelta) {
	data, err := json.Marshal(x)
	if err == nil {
		err = d.nc.Publish(subject, data)
	}
	if err != nil {
		slog.Debug("cannot send a part of an answer", "error", err)
	}
}
