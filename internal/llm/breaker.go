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
	// breakAfter failures in a row open a breaker. After pauseFor one call may try again.
	breakAfter = 5
	pauseFor   = 15 * time.Second
	// slow is how long a call must have lasted for an exceeded deadline of the caller to count as a
	// failure of the provider.
	slow = 5 * time.Second
)

// guard is the circuit breaker before one server. A nil guard admits every call.
type guard struct {
	name    string
	breaker circuitbreaker.CircuitBreaker[any]
}

// newGuard returns a guard that records its state in the gauge under the name of provider.
func newGuard(name, provider string, pause time.Duration, state metric.Int64Gauge) *guard {
	of := metric.WithAttributes(attribute.String("provider", provider))
	tell := func(s circuitbreaker.State) {
		state.Record(context.Background(), map[circuitbreaker.State]int64{circuitbreaker.HalfOpenState: 1, circuitbreaker.OpenState: 2}[s], of)
	}
	tell(circuitbreaker.ClosedState)
	return &guard{name, circuitbreaker.NewBuilder[any]().
		WithFailureThreshold(breakAfter).
		WithSuccessThreshold(1).
		WithDelay(pause).
		OnStateChanged(func(e circuitbreaker.StateChangedEvent) { tell(e.NewState) }).
		Build()}
}

// member is a provider with its price and breaker.
type member struct {
	Provider
	price  Price
	*guard // nil for a provider that is not Remote
}

func newMember(p Provider, price Price, pause time.Duration, state metric.Int64Gauge) *member {
	m := &member{Provider: p, price: price}
	if _, ok := p.(Remote); ok {
		m.guard = newGuard(p.Name(), p.Name(), pause, state)
	}
	return m
}

// enter returns an error if the breaker is open. Otherwise the caller must call leave.
func (g *guard) enter() error {
	if g == nil || g.breaker.TryAcquirePermit() {
		return nil
	}
	return &schema.RemoteError{Code: schema.CodeUnavailable, Message: fmt.Sprintf(
		"%s failed %d times in a row and is not called for %s", g.name, breakAfter, max(g.breaker.RemainingDelay(), 0).Round(time.Second))}
}

// leave tells the breaker the outcome and the duration of a call.
func (g *guard) leave(ctx context.Context, err error, took time.Duration) {
	if g == nil {
		return
	}
	var e *schema.RemoteError
	var limit *refusal
	switch {
	case err == nil:
		g.breaker.RecordSuccess()
	case errors.As(err, &limit): // the provider was not called
		if g.breaker.IsHalfOpen() {
			g.breaker.RecordFailure()
		}
	case errors.Is(context.Cause(ctx), context.DeadlineExceeded) && took >= slow:
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
