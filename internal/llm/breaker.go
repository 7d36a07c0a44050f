package llm

// A circuit breaker before each language model behind an API. While a model fails repeatedly it is
// not called, so that callers do not wait for it and another provider can answer.

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/sluice-rag/sluice/schema"
)

// Remote is a provider that calls a model behind an API. Its replies are cached, and a circuit
// breaker guards it.
type Remote interface {
	Provider
	// Model is the name of the model that answers.
	Model() string
}

const (
	// breakAfter failures in a row open a breaker. After openDuration one call may try again.
	breakAfter   = 5
	openDuration = 15 * time.Second
	// slowCall is how long a call must have lasted for an exceeded deadline of the caller to count
	// as a failure of the provider.
	slowCall = 5 * time.Second
)

// serverBreaker is the circuit breaker before one server. A nil guard admits every call.
type serverBreaker struct {
	name    string
	breaker circuitbreaker.CircuitBreaker[any]
}

// newServerBreaker returns a breaker that records its state in the gauge under the name of
// provider.
func newServerBreaker(name, provider string, pause time.Duration, state metric.Int64Gauge) *serverBreaker {
	of := metric.WithAttributes(attribute.String("provider", provider))
	recordState := func(s circuitbreaker.State) {
		state.Record(context.Background(), map[circuitbreaker.State]int64{circuitbreaker.HalfOpenState: 1, circuitbreaker.OpenState: 2}[s], of)
	}
	recordState(circuitbreaker.ClosedState)
	return &serverBreaker{name, circuitbreaker.NewBuilder[any]().
		WithFailureThreshold(breakAfter).
		WithSuccessThreshold(1).
		WithDelay(pause).
		OnStateChanged(func(e circuitbreaker.StateChangedEvent) { recordState(e.NewState) }).
		Build()}
}

// pricedProvider is a provider with its price and breaker.
type pricedProvider struct {
	Provider
	price          Price
	*serverBreaker // nil for a provider that is not Remote
}

func newPricedProvider(p Provider, price Price, pause time.Duration, state metric.Int64Gauge) *pricedProvider {
	m := &pricedProvider{Provider: p, price: price}
	if _, ok := p.(Remote); ok {
		m.serverBreaker = newServerBreaker(p.Name(), p.Name(), pause, state)
	}
	return m
}

// allow returns an error if the breaker is open. Otherwise the caller must call record.
func (g *serverBreaker) allow() error {
	if g == nil || g.breaker.TryAcquirePermit() {
		return nil
	}
	return &schema.RemoteError{Code: schema.CodeUnavailable, Message: fmt.Sprintf(
		"%s failed %d times in a row and is not called for %s", g.name, breakAfter, max(g.breaker.RemainingDelay(), 0).Round(time.Second))}
}

// record tells the breaker the outcome and the duration of a call.
func (g *serverBreaker) record(ctx context.Context, err error, took time.Duration) {
	if g == nil {
		return
	}
	var e *schema.RemoteError
	var limit *limitError
	switch {
	case err == nil:
		g.breaker.RecordSuccess()
	case errors.As(err, &limit): // the provider was not called
		if g.breaker.IsHalfOpen() {
			g.breaker.RecordFailure()
		}
	case errors.Is(context.Cause(ctx), context.DeadlineExceeded) && took >= slowCall:
		g.breaker.RecordFailure()
	case ctx.Err() != nil: // the caller ended it; a trial call has shown nothing
		if g.breaker.IsHalfOpen() {
			g.breaker.RecordFailure()
		}
	case errors.As(err, &e) && (e.Code == schema.CodeUnavailable || e.Code == schema.CodeOverloaded || e.Code == schema.CodeDeadline):
		g.breaker.RecordFailure()
	default: // it answered, although not as it should
		g.breaker.RecordSuccess()
	}
}
