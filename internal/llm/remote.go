package llm

// Models behind an API that are not language models: encoders and rerankers, which a model pack may
// use in place of a graph. Like calls of language models their calls stay within tenants' budgets,
// are recorded in the ledger, are retried after transient errors, and stop for a while after
// repeated failures. The model server makes the requests, because it knows the pack.

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/google/uuid"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/sluice-rag/sluice/internal/text"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// RemoteServer is the address of a server of models, and its key.
type RemoteServer struct {
	URL string // base URL; empty: the provider's own server, if there is a key
	Key string // may be empty if the server needs none
}

// RemoteOptions are the parts of a RemoteModels.
type RemoteOptions struct {
	Embed      RemoteServer
	EmbedPrice float64 // US dollars per million tokens
	// Rerank and RerankPrice are the same for rerankers.
	Rerank      RemoteServer
	RerankPrice float64
	Accounts    Accounts      // may be nil
	Timeout     time.Duration // of one call, retries included; 0: 60 s
	Pause       time.Duration // before the first retry; 0: 500 ms
	// BreakerPause is how long a server that fails repeatedly is not called; 0: 15 s.
	BreakerPause time.Duration
	// MaxWait is how long a call waits at its tenant's budgets; 0: 5 s.
	MaxWait time.Duration
	// Bulk is how many background requests are processed concurrently; 0: 6.
	Bulk int
}

// RemoteModels calls models behind an API. It is safe for concurrent use.
type RemoteModels struct {
	options  RemoteOptions
	embed    *remoteServer
	rerank   *remoteServer
	retry    failsafe.Executor[struct{}]
	bulk     chan struct{}
	tracer   trace.Tracer
	duration metric.Float64Histogram
	tokens   metric.Int64Counter
}

// NewRemoteModels checks the options and returns the models.
func NewRemoteModels(o RemoteOptions) (*RemoteModels, error) {
	if o.BreakerPause <= 0 {
		o.BreakerPause = openDuration
	}
	if o.MaxWait <= 0 {
		o.MaxWait = maxWait
	}
	if o.Timeout <= 0 {
		o.Timeout = defaultTimeout
	}
	if o.Bulk <= 0 {
		o.Bulk = 6
	}
	x := &RemoteModels{options: o, retry: retryTransient[struct{}](o.Pause), bulk: make(chan struct{}, o.Bulk), tracer: otel.Tracer(scope)}
	meter := otel.Meter(scope)
	var breakers metric.Int64Gauge
	var problems [3]error
	x.duration, problems[0] = meter.Float64Histogram("sluice.llm.duration", metric.WithUnit("s"), metric.WithDescription("time that a completion took"))
	x.tokens, problems[1] = meter.Int64Counter("sluice.llm.tokens", metric.WithUnit("{token}"), metric.WithDescription("tokens sent and received"))
	breakers, problems[2] = meter.Int64Gauge("sluice.llm.breaker", metric.WithDescription("circuit breaker of a provider: 0 closed (asked), 1 half-open (on trial), 2 open (not asked)"))
	if err := errors.Join(problems[:]...); err != nil {
		return nil, fmt.Errorf("make metrics of models behind an API: %w", err)
	}
	var err, other error
	x.embed, err = newRemoteServer(o.Embed, "SLUICE_EMBED", newServerBreaker("the server of SLUICE_EMBED_URL", "embeddings", o.BreakerPause, breakers))
	x.rerank, other = newRemoteServer(o.Rerank, "SLUICE_RERANK", newServerBreaker("the server of SLUICE_RERANK_URL", "rerank", o.BreakerPause, breakers))
	return x, errors.Join(err, other)
}

// Close drops idle connections.
func (x *RemoteModels) Close() {
	x.embed.close()
	x.rerank.close()
}

// billed is what a request has used so far.
type billed struct {
	tokens int
	nanos  int64
}

// job is what budgets, ledger and metrics need to know of a request.
type job struct {
	tenant   uuid.UUID
	lane     wire.Lane
	task     wire.LLMTask
	by       wire.RemoteModel
	deadline time.Time
	price    Price
	maxUse   billed // the most that it may use
}

// inBatches does a request in calls of at most size texts each. call makes one call for the texts
// with the indices in batch, and returns the tokens to pay for. maxTexts bounds the tokens of the
// whole request.
func (x *RemoteModels) inBatches(ctx context.Context, e remoteEndpoint, j job, maxTexts int, texts []string, size int,
	call func(ctx context.Context, batch []int) (tokens int, err error)) (schema.Usage, error) {
	j.maxUse = billed{maxTexts, j.price.Nanos(maxTexts, 0)}
	return x.run(ctx, j, func(ctx context.Context, used *billed) error {
		for _, batch := range batches(texts, size) {
			if err := x.ask(ctx, e, func(ctx context.Context) error {
				n, err := call(ctx, batch)
				used.tokens += n
				used.nanos += j.price.Nanos(n, 0)
				return err
			}); err != nil {
				return err
			}
		}
		return nil
	})
}

// run does a request's work within its tenant's budgets, and records what work counts in used, also
// if it fails.
func (x *RemoteModels) run(ctx context.Context, j job, work func(ctx context.Context, used *billed) error) (_ schema.Usage, err error) {
	if !j.deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, j.deadline)
		defer cancel()
	}
	ctx, span := x.tracer.Start(ctx, string(j.task), trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.String("gen_ai.provider.name", j.by.Provider), attribute.String("gen_ai.request.model", j.by.Model)))
	defer span.End()
	defer func() {
		if err != nil {
			span.RecordError(err)
			span.SetStatus(codes.Error, err.Error())
			slog.WarnContext(ctx, "a call to a model behind an API failed", "task", j.task, "tenant", j.tenant, "error", err)
		}
	}()
	if j.tenant == uuid.Nil {
		return schema.Usage{}, schema.Invalid("tenant", "is missing: a model behind an API costs money, so the request must say whose")
	}
	if j.lane.Background() {
		select {
		case x.bulk <- struct{}{}:
			defer func() { <-x.bulk }()
		default:
			return schema.Usage{}, &schema.RemoteError{Code: schema.CodeOverloaded, Message: fmt.Sprintf(
				"the gateway already works on %d background requests to models behind an API: try again", x.options.Bulk)}
		}
	}
	call := Call{ID: schema.NewID(), Tenant: j.tenant, Step: wire.Step{Step: string(j.task)}, Task: j.task}
	if err := x.reserve(ctx, call.ID, j); err != nil {
		return schema.Usage{}, err
	}
	var used billed
	start := time.Now()
	err = work(ctx, &used)
	took := time.Since(start)
	u := schema.Usage{Provider: j.by.Provider, Model: j.by.Model, InputTokens: used.tokens, Cost: Dollars(used.nanos), Millis: float64(took.Microseconds()) / 1000}
	of := attribute.String("provider", j.by.Provider+" "+string(j.task))
	x.duration.Record(ctx, took.Seconds(), metric.WithAttributes(of, attribute.Bool("failed", err != nil)))
	x.tokens.Add(ctx, int64(used.tokens), metric.WithAttributes(of, attribute.String("direction", "in")))
	x.book(ctx, call, u, err)
	return u, err
}

// reserve sets aside what a request may cost. It waits a little if calls in progress have reserved
// too much.
func (x *RemoteModels) reserve(ctx context.Context, id uuid.UUID, j job) error {
	if x.options.Accounts == nil {
		return nil
	}
	r := Reservation{Tenant: j.tenant, ID: id, Tokens: int64(j.maxUse.tokens), Nanos: j.maxUse.nanos, TTL: reservationTTL(ctx), Uncounted: true}
	return waitForCapacity(ctx, x.options.MaxWait, func(context.Context) (time.Duration, error) { return x.options.Accounts.Reserve(ctx, r) })
}

// book settles a request's reservation with what it used.
func (x *RemoteModels) book(ctx context.Context, call Call, u schema.Usage, failed error) {
	if x.options.Accounts == nil {
		return
	}
	booking, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleGrace/2)
	defer cancel()
	var err error
	switch {
	case failed == nil:
		err = x.options.Accounts.Record(booking, call, wire.LLMReply{Usage: u})
	case cancelled(ctx):
		err = x.options.Accounts.RecordCancelled(booking, call, u)
	default:
		err = x.options.Accounts.Settle(booking, call.Tenant, call.ID, u)
	}
	if err != nil {
		slog.WarnContext(ctx, "cannot record the cost of a call to a model behind an API", "tenant", call.Tenant, "error", err)
	}
}

// ask makes one call to a server, with retries of transient errors.
func (x *RemoteModels) ask(ctx context.Context, e remoteEndpoint, call func(ctx context.Context) error) error {
	if err := e.serverBreaker.allow(); err != nil {
		return err
	}
	start := time.Now()
	bounded, cancel := context.WithTimeout(ctx, e.timeout)
	defer cancel()
	_, err := x.retry.WithContext(bounded).Get(func() (struct{}, error) { return struct{}{}, call(bounded) })
	if err != nil && bounded.Err() != nil { // also if it ended between two tries
		err = e.ended(bounded)
	}
	e.serverBreaker.record(bounded, err, time.Since(start))
	return err
}

// truncateTokens returns the beginning of s with at most limit tokens, by tokenBound. cut reports
// whether something was removed.
func truncateTokens(s string, limit int) (_ string, cut bool) {
	if tokenBound(s)-messageTokens <= limit {
		return s, false
	}
	low, high := 0, len(s) // the first low bytes fit
	for high-low > 1 {
		if half := (low + high) / 2; tokenBound(s[:half])-messageTokens <= limit {
			low = half
		} else {
			high = half
		}
	}
	return strings.ToValidUTF8(s[:low], ""), true
}

// truncateAll applies truncateTokens to each text; truncated counts the texts that were cut.
func truncateAll(texts []string, limit int) (out []string, truncated int) {
	out = make([]string, len(texts))
	for i, s := range texts {
		var cut bool
		if out[i], cut = truncateTokens(s, limit); cut {
			truncated++
		}
	}
	return out, truncated
}

// receivedResults marks the texts of a call whose results have come.
type receivedResults []bool

// markReceived marks the result of text *index as received. It reports false if there is no such
// text or its result came before.
func (p receivedResults) markReceived(index *int) bool {
	if index == nil || *index < 0 || *index >= len(p) || p[*index] {
		return false
	}
	p[*index] = true
	return true
}

// callTokens bounds the tokens of one call's texts, by tokenBound. Servers reject larger calls.
const callTokens = 100_000

// batches divides texts into calls of at most limit texts each, given by their indices. It leaves
// out blank texts.
func batches(texts []string, limit int) (out [][]int) {
	tokens := 0
	for i, t := range texts {
		if strings.TrimSpace(t) == "" {
			continue
		}
		n := tokenBound(t)
		if last := len(out) - 1; last < 0 || len(out[last]) == limit || tokens+n > callTokens {
			out, tokens = append(out, nil), 0
		}
		tokens += n
		out[len(out)-1] = append(out[len(out)-1], i)
	}
	return out
}

// countTexts returns how many tokens texts have, for servers that do not count.
func countTexts(texts []string) (n int) {
	for _, t := range texts {
		n += text.CountTokens(t)
	}
	return n
}
