package llm

// What a call may cost is reserved before it is made, and what it did cost is
// settled after. Calls of a tenant that come to a limit wait a little, in their
// order.

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

// Accounts keep what calls cost, and tenants within their limits, all gateways'
// calls together. The ledger settles what it keeps.
type Accounts interface {
	// Reserve sets aside what a call may cost at most. An error with a time says
	// that it may fit after that; one without, that it does not fit. Errors that
	// match schema.ErrQuota or schema.ErrOverloaded say which limit.
	Reserve(ctx context.Context, r Reservation) (again time.Duration, err error)
	// Settle ends the reservation of a call that left no reply, with what it cost.
	Settle(ctx context.Context, tenant, id uuid.UUID, u schema.Usage) error
	// Record keeps what a search's call cost, and ends its reservation.
	Record(ctx context.Context, call Call, reply wire.LLMReply) error
	// RecordCancelled keeps what a call cost that was cancelled, a question's or a
	// search's, and ends its reservation. No reply is kept: who asks for the step again
	// has it made.
	RecordCancelled(ctx context.Context, call Call, u schema.Usage) error
}

// Reservation is the most that a call may cost.
type Reservation struct {
	Tenant, ID uuid.UUID
	Tokens     int64 // input and output
	Nanos      int64 // billionths of a US dollar
	// Lasts is how long it counts at most. The account's own clock counts it: a gateway's may be
	// wrong.
	Lasts time.Duration
	// Own says that the call is to Sluice's own models. It costs nothing, and the
	// limits of calls hold for such calls apart from all others.
	Own bool
	// Uncounted says that limits of calls neither hold nor count it, as they do not calls
	// to encoders and rerankers: one document may take many.
	Uncounted bool
	// More adds to the reservation of that id, for another call to a model on the
	// way to one reply. It is not held up.
	More bool
}

const (
	// maxWait is how long a call waits at a limit.
	maxWait = 5 * time.Second
	// longestCall bounds a call without a deadline; a reservation counts for
	// settleIn longer, to be settled.
	longestCall = 10 * time.Minute
	settleIn    = time.Minute
)

// refusal is an error of a limit: no provider is at fault.
type refusal struct{ error }

func (e *refusal) Unwrap() error { return e.error }

// payer pays for one reply: it reserves before each call of a provider.
type payer struct {
	g        *Gateway
	tenant   uuid.UUID
	id       uuid.UUID
	reserved bool
}

type payerKey struct{}

// payment is a payer in a context, with the prices of the provider at work.
type payment struct {
	*payer
	price Price
	own   bool
}

// reserve sets aside what a call of the provider at work may cost. It is called
// before each one.
func reserve(ctx context.Context, input, output int) error {
	p, ok := ctx.Value(payerKey{}).(payment)
	if !ok || p.g.accounts == nil {
		return nil
	}
	if p.own {
		if p.reserved { // it stands in for another one, which holds a place
			return nil
		}
		input, output = 0, 0
	}
	r := Reservation{Tenant: p.tenant, ID: p.id, Tokens: int64(input) + int64(output), Nanos: p.price.Nanos(input, output),
		Lasts: lasts(ctx), Own: p.own, More: p.reserved}
	if err := p.g.admit(ctx, r); err != nil {
		return &refusal{err}
	}
	p.reserved = true
	return nil
}

// lasts is after what time a reservation ends by itself that is made for a call of ctx.
func lasts(ctx context.Context) time.Duration {
	left := longestCall
	if deadline, ok := ctx.Deadline(); ok {
		left = max(0, min(left, time.Until(deadline)))
	}
	return left + settleIn
}

// waitForCapacity tries to reserve until it succeeds, waiting is useless, or maxWait is over.
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

// admit reserves, waiting at limits.
func (g *Gateway) admit(ctx context.Context, r Reservation) error {
	if r.More {
		_, err := g.accounts.Reserve(ctx, r)
		return err
	}
	// At a budget that others hold it leaves the order: whoever needs less may go before.
	return waitForCapacity(ctx, g.maxWait, func(waiting context.Context) (time.Duration, error) { return g.inOrder(waiting, r) })
}

// inOrder tries to reserve when those of the tenant that came before have, and
// while its rate or its calls in progress do not let it in. Whose patience ends
// in the queue tries once: nothing is refused that fits.
func (g *Gateway) inOrder(ctx context.Context, r Reservation) (again time.Duration, err error) {
	leave, first := g.lines.enter(ctx, r.Tenant)
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
			return 0, err // it would wait for nothing
		}
		select {
		case <-ctx.Done():
			return 0, err
		case <-time.After(again):
		}
	}
}

// try is not cut short by whoever lost patience.
func (g *Gateway) try(ctx context.Context, r Reservation) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*maxWait)
	defer cancel()
	return g.accounts.Reserve(ctx, r)
}

// lines are where calls of a tenant wait for each other.
type lines struct {
	mu sync.Mutex
	of map[uuid.UUID]*queue
}

type queue struct {
	head chan struct{} // whoever is in it is first; senders wait in their order
	in   int
}

// enter waits until the caller is first, or ctx ends.
func (l *lines) enter(ctx context.Context, tenant uuid.UUID) (leave func(), first bool) {
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

// settle ends the reservation of a call that failed, or was cancelled.
func (p *payer) settle(ctx context.Context, call Call, used spent) {
	if !p.reserved {
		return
	}
	settling, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleIn/2)
	defer cancel()
	var err error
	if u := used.in(schema.Usage{Provider: used.provider, Model: used.model, Millis: used.millis}); cancelled(ctx) {
		err = p.g.accounts.RecordCancelled(settling, call, u)
	} else {
		err = p.g.accounts.Settle(settling, p.tenant, p.id, u)
	}
	if err != nil {
		p.g.warn(ctx, "a call was not settled", p.tenant, err)
	}
}

// messageTokens is what a message has beside its text, at most.
const messageTokens = 16

// mostTokens is how many tokens a model may make of a text: its tokenizer is not
// known here. Models need up to 1.5 per token of internal/text in prose, and one
// per three bytes of numbers, code and other scripts.
func mostTokens(s string) int {
	return min(len(s), max(text.CountTokens(s)*3/2, len(s)/3)) + messageTokens
}

// extractiveTokens is the most that the provider "extractive" counts for a request:
// what it reads, once for each choice, and the longest passages as its answer.
func extractiveTokens(r wire.LLMRequest) (input, output int) {
	passages := make([]int, len(r.Passages))
	all := 0
	for i, p := range r.Passages {
		passages[i] = text.CountTokens(p.Text) + 2
		all += passages[i]
	}
	read := 0
	for _, s := range stretchesOf(r.Passages, 0) {
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
