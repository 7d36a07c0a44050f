package llm

// This file has a request answered by its provider or, while that one fails, by its fallbacks.

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/sluice-rag/sluice/internal/text"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// spent is what the calls for one reply have used so far, of all providers.
type spent struct {
	all, own        sum    // own is the part of all for Sluice's own models
	provider, model string // of the last call
	millis          float64
}

type sum struct {
	input, output int
	nanos         int64
}

func (s *sum) add(price Price, c Completion) {
	s.input += c.InputTokens
	s.output += c.OutputTokens
	s.nanos += price.Nanos(c.InputTokens, c.OutputTokens)
}

func (s *spent) add(p *pricedProvider, c Completion, took time.Duration) {
	s.provider, s.model = p.Name(), text.Clean(c.Model)
	s.millis += float64(took.Microseconds()) / 1000
	s.all.add(p.price, c)
	if isOwn(p.Provider) {
		s.own.add(p.price, c)
	}
}

// in returns the usage u with what was spent.
func (s *spent) in(u schema.Usage) schema.Usage {
	u.InputTokens, u.OutputTokens, u.Cost = s.all.input, s.all.output, Dollars(s.all.nanos)
	u.Own = schema.OwnUsage{InputTokens: s.own.input, OutputTokens: s.own.output, Cost: Dollars(s.own.nanos)}
	return u
}

// isOwn reports whether a provider's models are Sluice's own, which cost nothing.
func isOwn(p Provider) bool {
	_, own := p.(*Extractive)
	return own
}

// ask tries the providers of a chain in order until one answers. The usage of the reply, and used,
// count all calls that were paid for, also those of providers that failed.
func (g *Gateway) ask(ctx context.Context, chain []*pricedProvider, r wire.LLMRequest, out *deltas, payer *payer, used *spent) (wire.LLMReply, error) {
	var failed error
	for i, m := range chain {
		if i > 0 {
			slog.WarnContext(ctx, "falling back to another provider", "tenant", r.Tenant, "question", r.Step.Question,
				"provider", m.Name(), "in place of", chain[i-1].Name(), "error", failed)
			g.fallbacks.Add(ctx, 1, metric.WithAttributes(attribute.String("from", chain[i-1].Name()), attribute.String("to", m.Name())))
			out.again()
		}
		reply, err := g.askOne(ctx, m, r, out, payer, used)
		if err == nil {
			reply.Usage = used.in(reply.Usage)
			return reply, nil
		}
		if failed == nil {
			failed = err
		} else {
			failed = fmt.Errorf("%w; its fallback: %w", failed, err)
		}
		if ctx.Err() != nil || !canFallBack(err) {
			break
		}
	}
	return wire.LLMReply{}, failed
}

// canFallBack reports whether another provider could do better after err. It could not if the
// request or a limit of its tenant is at fault.
func canFallBack(err error) bool {
	var limit *limitError
	return !errors.As(err, &limit) && !errors.Is(err, schema.ErrInvalid) && !errors.Is(err, schema.ErrQuota) && !errors.Is(err, schema.ErrTooLarge)
}

// askOne runs a provider and keeps the part of its answer that can be proved.
func (g *Gateway) askOne(ctx context.Context, p *pricedProvider, r wire.LLMRequest, out *deltas, payer *payer, used *spent) (wire.LLMReply, error) {
	ctx, span := g.tracer.Start(ctx, "complete "+string(r.Task), trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(attribute.String("gen_ai.provider.name", p.Name()), attribute.Int("sluice.passages", len(r.Passages))))
	defer span.End()
	fail := func(err error) (wire.LLMReply, error) {
		span.RecordError(err)
		span.SetStatus(codes.Error, err.Error())
		if limit := (*limitError)(nil); errors.As(err, &limit) {
			return wire.LLMReply{}, err
		}
		return wire.LLMReply{}, fmt.Errorf("provider %s: %w", p.Name(), err)
	}
	if err := p.allow(); err != nil {
		return fail(err)
	}
	start := time.Now()
	c, err := run(context.WithValue(ctx, payerKey{}, payment{payer, p.price, isOwn(p.Provider)}), p.Provider, r, out)
	took := time.Since(start)
	// An unreadable reply is the result of a trial. Of correctness judgements the caller counts the
	// ones that it gets.
	if bad := (*unreadableReply)(nil); (r.Trial || r.Task == wire.TaskCorrectness) && errors.As(err, &bad) {
		c.Text, c.Quotes, c.Correct, err = "", nil, nil, nil
	}
	p.record(ctx, err, took)
	used.add(p, c, took)
	of := attribute.String("provider", p.Name())
	g.duration.Record(ctx, took.Seconds(), metric.WithAttributes(of, attribute.Bool("failed", err != nil)))
	g.tokens.Add(ctx, int64(c.InputTokens), metric.WithAttributes(of, attribute.String("direction", "in")))
	g.tokens.Add(ctx, int64(c.OutputTokens), metric.WithAttributes(of, attribute.String("direction", "out")))
	span.SetAttributes(attribute.String("gen_ai.request.model", c.Model),
		attribute.Int("gen_ai.usage.input_tokens", c.InputTokens), attribute.Int("gen_ai.usage.output_tokens", c.OutputTokens))
	if err != nil {
		return fail(err)
	}
	reply := wire.LLMReply{Envelope: wire.Header(), Text: strings.TrimSpace(text.Clean(c.Text)), Quotes: proved(c.Quotes, r.Passages),
		Usage: schema.Usage{Provider: p.Name(), Model: text.Clean(c.Model), Millis: float64(took.Microseconds()) / 1000}}
	if r.Task != wire.TaskAnswer {
		return reply, checkTask(p, r, c, &reply)
	}
	checkAnswer(r, c, &reply)
	return reply, nil
}

// run has a provider answer, and streams the answer if the provider can and there is a receiver. An
// answer to a question with choices is not streamed: it is one of them.
func run(ctx context.Context, p Provider, r wire.LLMRequest, out *deltas) (Completion, error) {
	if _, ok := p.(Remote); !ok { // a Remote reserves before each of its calls
		input, output := extractiveTokens(r)
		if err := reserve(ctx, input, output); err != nil {
			return Completion{}, err
		}
	}
	if s, ok := p.(Streamer); ok && out != nil && len(r.Choices) == 0 {
		return s.Stream(ctx, r, out.send)
	}
	return p.Complete(ctx, r)
}
