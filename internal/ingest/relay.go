package ingest

// The relay moves outbox rows to JetStream: at least once, with message ids that
// JetStream recognises. Any number of relays may run; each row is locked by one.

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/sluice-rag/sluice/internal/ingest/batch"
	"github.com/sluice-rag/sluice/internal/lifecycle"
)

// Outbox is where the relay takes its messages from.
type Outbox interface {
	RelayOutbox(ctx context.Context, r batch.Round, publish func(context.Context, []batch.Message) []int64) (after string, found, deleted int, err error)
}

// Wakeup hears of new outbox rows.
type Wakeup interface {
	Wait(ctx context.Context) error
	Close(ctx context.Context) error
}

// HeaderQueued is the header that holds when a message was queued (RFC 3339
// with nanoseconds). The stream's own time is when it was published.
const HeaderQueued = "Sluice-Queued"

const (
	relayRows       = 500             // rows of one round
	relayPerSubject = 100             // of one subject, so that none waits for another
	ackWait         = 5 * time.Second // for JetStream to confirm a round
	fullFirst       = 200 * time.Millisecond
	fullMost        = 5 * time.Second
	backoffFirst    = 100 * time.Millisecond
	backoffMost     = 15 * time.Second
	sessionMost     = 2 * time.Second
)

// relay is the state of one relay.
type relay struct {
	outbox  Outbox
	js      jetstream.JetStream
	streams Streams
	poll    time.Duration
	full    map[string]fullSubject
}

// fullSubject is a subject that takes no more for now.
type fullSubject struct {
	until time.Time
	pause time.Duration
}

// Streams creates the streams that are missing: after NATS was wiped, say.
type Streams func(ctx context.Context) error

// NewRelay makes the relay. open opens the session that wakes it.
func NewRelay(outbox Outbox, nc *nats.Conn, streams Streams, open func(ctx context.Context) (Wakeup, error), o Options) (lifecycle.Service, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	// A context of its own: what JetStream never confirms is forgotten in time.
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncTimeout(ackWait), jetstream.WithPublishAsyncMaxPending(4*relayRows))
	if err != nil {
		return nil, fmt.Errorf("make the relay: %w", err)
	}
	wake := make(chan struct{}, 1)
	listen := lifecycle.NewLoop("outbox listener", nil, func(fetch, _ context.Context) error {
		return hear(fetch, open, wake)
	})
	move := lifecycle.NewLoop("relay", nil, func(fetch, work context.Context) error {
		r := relay{outbox: outbox, js: js, streams: streams, poll: o.Poll, full: map[string]fullSubject{}}
		return r.run(fetch, work, wake)
	})
	return lifecycle.NewGroup("outbox relay", time.Second, listen, move), nil
}

// hear wakes the relay when rows are added, on a session that it opens again
// whenever it breaks.
func hear(ctx context.Context, open func(ctx context.Context) (Wakeup, error), wake chan<- struct{}) error {
	// The session also says that this worker lives: it must not be away for long.
	pause := backoff{first: backoffFirst, most: sessionMost}
	for ctx.Err() == nil {
		err := hearOne(ctx, open, wake, &pause)
		if ctx.Err() != nil {
			break
		}
		slog.WarnContext(ctx, "cannot listen for outbox rows; polling meanwhile", "error", err)
		pause.sleep(ctx)
	}
	return ctx.Err()
}

func hearOne(ctx context.Context, open func(ctx context.Context) (Wakeup, error), wake chan<- struct{}, pause *backoff) error {
	session, err := open(ctx)
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if err := session.Close(closing); err != nil {
			slog.DebugContext(ctx, "closing the outbox session", "error", err)
		}
	}()
	pause.reset()
	for {
		select {
		case wake <- struct{}{}: // rows may have come before the session did
		default:
		}
		if err := session.Wait(ctx); err != nil {
			return err
		}
	}
}

func (r *relay) run(fetch, work context.Context, wake <-chan struct{}) error {
	pause := backoff{first: backoffFirst, most: backoffMost}
	after := ""
	for fetch.Err() == nil {
		next, found, published, err := r.round(work, after)
		switch {
		case err != nil:
			slog.WarnContext(work, "cannot relay the outbox; trying again", "pause", pause.next(), "error", err)
			if errors.Is(err, jetstream.ErrNoStreamResponse) || errors.Is(err, jetstream.ErrStreamNotFound) {
				if err := r.streams(fetch); err != nil {
					slog.WarnContext(work, "cannot make the streams", "error", err)
				}
			}
			pause.sleep(fetch)
			continue
		case published > 0:
			pause.reset()
		}
		after = next
		if next != "" || found > 0 {
			continue
		}
		timer := time.NewTimer(r.wait())
		select {
		case <-fetch.Done():
		case <-wake:
		case <-timer.C:
		}
		timer.Stop()
	}
	return fetch.Err()
}

// wait is how long an idle relay waits: until a full subject may be tried again.
func (r *relay) wait() time.Duration {
	wait := r.poll
	for _, f := range r.full {
		wait = min(wait, max(time.Until(f.until), time.Millisecond))
	}
	return wait
}

func (r *relay) round(ctx context.Context, after string) (next string, found, published int, err error) {
	if !r.js.Conn().IsConnected() {
		return after, 0, 0, errors.New("nats is not connected")
	}
	now := time.Now()
	skip := slices.Collect(maps.Keys(r.full))
	skip = slices.DeleteFunc(skip, func(s string) bool { return !now.Before(r.full[s].until) })
	var failure error
	next, found, published, err = r.outbox.RelayOutbox(ctx,
		batch.Round{After: after, Skip: skip, PerSubject: relayPerSubject, Limit: relayRows},
		func(ctx context.Context, messages []batch.Message) []int64 {
			var sent []int64
			sent, failure = r.publish(ctx, messages)
			return sent
		})
	return next, found, published, errors.Join(err, failure)
}

// publish sends messages and returns the ids of those that JetStream has. A
// subject that JetStream refuses is left alone for a while; any other failure is returned.
func (r *relay) publish(ctx context.Context, messages []batch.Message) (sent []int64, failure error) {
	futures := make([]jetstream.PubAckFuture, len(messages))
	for i, m := range messages {
		header := nats.Header{}
		header.Set(HeaderQueued, m.Queued.UTC().Format(time.RFC3339Nano))
		if m.Trace != "" {
			header.Set("traceparent", m.Trace)
		}
		future, err := r.js.PublishMsgAsync(&nats.Msg{Subject: m.Subject, Data: m.Payload, Header: header},
			jetstream.WithMsgID(m.MsgID), jetstream.WithRetryAttempts(0))
		if err != nil {
			failure = fmt.Errorf("publish to %s: %w", m.Subject, err)
			break
		}
		futures[i] = future
	}
	deadline := time.NewTimer(ackWait)
	defer deadline.Stop()
	refused := map[string]*jetstream.APIError{}
	for i, future := range futures {
		if future == nil {
			break
		}
		select {
		case <-future.Ok():
			sent = append(sent, messages[i].ID)
			if refused[messages[i].Subject] == nil {
				delete(r.full, messages[i].Subject)
			}
			r.count(ctx, "published")
		case err := <-future.Err():
			var api *jetstream.APIError
			if errors.As(err, &api) && !errors.Is(err, jetstream.ErrStreamNotFound) {
				refused[messages[i].Subject] = api
				if subjectFull(api) {
					r.count(ctx, "full")
				} else {
					r.count(ctx, "failed")
				}
				continue
			}
			failure = fmt.Errorf("publish to %s: %w", messages[i].Subject, err)
			r.count(ctx, "failed")
		case <-deadline.C:
			return sent, fmt.Errorf("jetstream did not confirm %d of %d messages within %s", len(messages)-len(sent), len(messages), ackWait)
		case <-ctx.Done():
			return sent, ctx.Err()
		}
	}
	for subject, why := range refused {
		r.setAside(ctx, subject, why)
	}
	return sent, failure
}

// storeFailed is JetStream's code for a message that a stream did not store.
const storeFailed jetstream.ErrorCode = 10077

// subjectFull reports whether a stream holds as many messages of a subject as it may; a full disk has the same code.
func subjectFull(err *jetstream.APIError) bool {
	return err.ErrorCode == storeFailed && err.Description == "maximum messages per subject exceeded"
}

// setAside passes over a subject that JetStream refused, for a while that grows.
func (r *relay) setAside(ctx context.Context, subject string, why *jetstream.APIError) {
	pause := min(max(2*r.full[subject].pause, fullFirst), fullMost)
	switch {
	case !subjectFull(why):
		slog.WarnContext(ctx, "jetstream refuses messages, which wait in the outbox; trying again", "subject", subject, "pause", pause, "error", why)
	case r.full[subject].pause == 0:
		slog.InfoContext(ctx, "a tenant's queue is full; its messages wait in the outbox", "subject", subject)
	}
	r.full[subject] = fullSubject{until: time.Now().Add(pause), pause: pause}
}

func (r *relay) count(ctx context.Context, outcome string) {
	meters.relayed.Add(ctx, 1, metric.WithAttributes(attribute.String("outcome", outcome)))
}
