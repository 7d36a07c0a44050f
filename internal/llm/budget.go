package llm

// What a call may cost at most is reserved before the call, and what it did cost is settled after
// it. A tenant's calls that reach a limit wait a little, in order.

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/text"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// Accounts keep what calls cost, and keep tenants within their limits across all gateways. The
// ledger settles the calls that it stores.
type Accounts interface {
	// Reserve sets aside what a call may cost at most. An error with a time says that the
	// reservation may fit after that time; one without, that it cannot fit. Errors that match
	// schema.ErrQuota or schema.ErrOverloaded name the limit.
	Reserve(ctx context.Context, r Reservation) (again time.Duration, err error)
	// Settle ends the reservation of a call that failed, and keeps what it cost.
	Settle(ctx context.Context, tenant, id uuid.UUID, u schema.Usage) error
	// Record keeps what a search's call cost, and ends its reservation.
	Record(ctx context.Context, call Call, reply wire.LLMReply) error
	// RecordCancelled keeps what a cancelled call cost, of a question or a search, and ends its
	// reservation. It keeps no reply: the next request for the step makes a new call.
	RecordCancelled(ctx context.Context, call Call, u schema.Usage) error
}

// Reservation is the most that a call may cost.
type Reservation struct {
	Tenant, ID uuid.UUID
	Tokens     int64 // input and output
	Nanos      int64 // billionths of a US dollar
	// TTL is how long the reservation counts at most. It is measured by the clock of the accounts,
	// because a gateway's clock may be wrong.
	TTL time.Duration
	// Own says that the call is to one of Sluice's own models. It costs nothing, and the limits of
	// calls are counted apart from those of other calls.
	Own bool
	// Uncounted exempts the call from the limits of calls, and does not count it there. It is for
	// calls to encoders and rerankers, of which one document may need many.
	Uncounted bool
	// More adds to the existing reservation of that ID, for a further model call for the same
	// reply. It does not wait at limits.
	More bool
}

const (
	// maxWait is how long a call waits at a limit.
	maxWait = 5 * time.Second
	// maxCallTime bounds a call without a deadline. A reservation counts for settleGrace longer, so
	// that it can be settled.
	maxCallTime = 10 * time.Minute
	settleGrace = time.Minute
)

// limitError is the error of a limit. No provider is at fault.
type limitError struct{ error }

func (e *limitError) Unwrap() error { return e.error }

// payer pays for one reply. It reserves before each model call.
type payer struct {
	g        *Gateway
	tenant   uuid.UUID
	id       uuid.UUID
	reserved bool
}

type payerKey struct{}

// payment is a payer in a context, with the price of the current provider.
type payment struct {
	*payer
	price Price
	own   bool
}

// reserve sets aside what a call of the current provider may cost. It is called before each model
// call.
func reserve(ctx context.Context, input, output int) error {
	p, ok := ctx.Value(payerKey{}).(payment)
	if !ok || p.g.accounts == nil {
		return nil
	}
	if p.own {
		if p.reserved { // a fallback: the provider before it made the reservation
			return nil
		}
		input, output = 0, 0
	}
	r := Reservation{Tenant: p.tenant, ID: p.id, Tokens: int64(input) + int64(output), Nanos: p.price.Nanos(input, output),
		TTL: reservationTTL(ctx), Own: p.own, More: p.reserved}
	if err := p.g.admit(ctx, r); err != nil {
		return &limitError{err}
	}
	p.reserved = true
	return nil
}

// reservationTTL returns how long a reservation for a call with ctx lasts at most.
func reservationTTL(ctx context.Context) time.Duration {
	left := maxCallTime
	if deadline, ok := ctx.Deadline(); ok {
		left = max(0, min(left, time.Until(deadline)))
	}
	return left + settleGrace
}

// waitForCapacity calls try until it succeeds, waiting is useless, or maxWait is over.
func waitForCapacity(ctx context.Context, maxWait time.Duration, try func(waiting context.Context) (again time.Duration, err error)) error {
	waiting, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	for {
		again, err := try(waiting)
		if err == nil || again <= 0 {
			return err
		}
		select {
		case <-waiting.Done():
			return err
		case <-time.After(again):
		}
	}
}

// admit makes a reservation, and waits at limits.
func (g *Gateway) admit(ctx context.Context, r Reservation) error {
	if r.More {
		_, err := g.accounts.Reserve(ctx, r)
		return err
	}
	// A call that waits at a budget reserved by others leaves the queue: a smaller call may go
	// before it.
	return waitForCapacity(ctx, g.maxWait, func(waiting context.Context) (time.Duration, error) { return g.inOrder(waiting, r) })
}

// inOrder makes a reservation after the tenant's earlier calls have made theirs. It waits while the
// tenant's rate or concurrent calls are at their limit. A call whose wait ends in the queue tries
// once, so that none is refused that fits.
func (g *Gateway) inOrder(ctx context.Context, r Reservation) (again time.Duration, err error) {
	leave, first := g.tenantQueues.enter(ctx, r.Tenant)
	if !first {
		if err := context.Cause(ctx); !errors.Is(err, context.DeadlineExceeded) {
			return 0, err
		}
		_, err := g.try(ctx, r)
		return 0, err
	}
	defer leave()
	for {
		again, err := g.try(ctx, r)
		if err == nil || again <= 0 || errors.Is(err, schema.ErrQuota) {
			return again, err
		}
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < again {
			return 0, err // the deadline comes first
		}
		select {
		case <-ctx.Done():
			return 0, err
		case <-time.After(again):
		}
	}
}

// try makes a reservation, and does not stop when the caller stops waiting.
func (g *Gateway) try(ctx context.Context, r Reservation) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*maxWait)
	defer cancel()
	return g.accounts.Reserve(ctx, r)
}

// tenantQueues are the queues in which calls of a tenant wait for each other.
type tenantQueues struct {
	mu sync.Mutex
	of map[uuid.UUID]*queue
}

type queue struct {
	head chan struct{} // full while a call is first; senders wait in order
	in   int
}

// enter waits until the caller is first in its tenant's queue, or ctx ends.
func (l *tenantQueues) enter(ctx context.Context, tenant uuid.UUID) (leave func(), first bool) {
	l.mu.Lock()
	if l.of == nil {
		l.of = map[uuid.UUID]*queue{}
	}
	q := l.of[tenant]
	if q == nil {
		q = &queue{head: make(chan struct{}, 1)}
		l.of[tenant] = q
	}
	q.in++
	l.mu.Unlock()
	out := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if q.in--; q.in == 0 {
			delete(l.of, tenant)
		}
	}
	select {
	case q.head <- struct{}{}:
		return func() { <-q.head; out() }, true
	case <-ctx.Done():
		out()
		return nil, false
	}
}

// settle ends the reservation of a call that failed or was cancelled.
func (p *payer) settle(ctx context.Context, call Call, used spent) {
	if !p.reserved {
		return
	}
	settling, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleGrace/2)
	defer cancel()
	var err error
	if u := used.in(schema.Usage{Provider: used.provider, Model: used.model, Millis: used.millis}); cancelled(ctx) {
		err = p.g.accounts.RecordCancelled(settling, call, u)
	} else {
		err = p.g.accounts.Settle(settling, p.tenant, p.id, u)
	}
	if err != nil {
		p.g.warn(ctx, "cannot record the cost of a call", p.tenant, err)
	}
}

// messageTokens is the most tokens that a message has besides its text.
const messageTokens = 16

// tokenBound returns how many tokens a model may count in a text at most; its tokenizer is not
// known here. Models need up to 1.5 tokens per token of internal/text in prose, and one per three
// bytes in numbers, code and other scripts.
func tokenBound(s string) int {
	return min(len(s), max(text.CountTokens(s)*3/2, len(s)/3)) + messageTokens
}

// extractiveTokens returns the most tokens that the provider "extractive" counts for a request:
// what it reads, once for each choice, and the longest passages as its answer.
func extractiveTokens(r wire.LLMRequest) (input, output int) {
	passages := make([]int, len(r.Passages))
	all := 0
	for i, p := range r.Passages {
		passages[i] = text.CountTokens(p.Text) + 2
		all += passages[i]
	}
	read := 0
	for _, s := range splitChunks(r.Passages, 0) {
		read += text.CountTokens(s.input)
	}
	input = (text.CountTokens(r.Question) + max(read, all)) * (1 + len(r.Choices))
	if r.Task != wire.TaskAnswer {
		return input, 0
	}
	slices.Sort(passages)
	for _, n := range passages[max(0, len(passages)-maxSentences):] {
		output += n
	}
	for _, c := range r.Choices {
		output += text.CountTokens(c)
	}
	return input, output
}
