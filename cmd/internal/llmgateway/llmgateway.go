// Package llmgateway composes the language model gateway: its providers, the ledger, and the
// service that answers over NATS.
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

// Deps are the connections that the gateway uses. The caller closes them.
type Deps struct {
	Store *store.Store
	NATS  *nats.Conn
	// Trusted are the keys of programs whose requests are accepted; nil: all requests are.
	Trusted *signature.Trusted
}

// calls is the default number of calls that one gateway makes at once.
const calls = 32

// remoteConcurrency is how many requests to models behind an API one gateway handles at once.
// remoteBulk is how many of them may be bulk requests, which no client waits for.
const (
	remoteConcurrency = 8
	remoteBulk        = 6
)

// stopShare is the part of the time to stop in which running completions may finish; then they are
// cancelled.
const stopShare = 0.75

// cacheEntries is the maximum number of cached replies of one tenant; the newest are kept.
const cacheEntries = 10_000

// extractivePrice is the stated price of extractive's tokens. Nothing is paid for them and no
// budget counts them; it makes plans comparable without a language model.
var extractivePrice = llm.Price{Input: 0.10, Output: 0.40}

// grace is how long the parts may take to stop when one of them fails.
const grace = 20 * time.Second

// New returns the gateway. The provider "extractive" can always be asked for. The settings choose
// the default provider and its fallbacks.
func New(settings config.LLM, d Deps) (lifecycle.Service, error) {
	names := []string{Provider(settings)}
	// A variable that is set to "" is parsed as a list of one empty name.
	settings.LLMFallback = slices.DeleteFunc(slices.Clone(settings.LLMFallback), func(s string) bool { return s == "" })
	for _, name := range append(slices.Clone(settings.LLMFallback), "extractive") {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	ledgerStore := ledger.New(d.Store)
	o := llm.Options{Ledger: ledgerStore, Accounts: ledgerStore, Fallback: settings.LLMFallback, Deltas: deltas{d.NATS}, Prices: map[string]llm.Price{
		"openai": llm.Price(settings.LLMPrice), "anthropic": llm.Price(settings.AnthropicPrice), "extractive": extractivePrice}}
	var age time.Duration // 0 without a cache: replies of an earlier one are removed
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
	remote, err := llm.NewRemoteModels(llm.RemoteOptions{Accounts: ledgerStore, Timeout: settings.LLMTimeout, Bulk: remoteBulk,
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

// provider returns a provider by its name.
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

// Provider returns the name of the default provider under these settings.
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

// deltas publishes parts of answers while they are made. It does not wait for a receiver.
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
