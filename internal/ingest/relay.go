package ingest

// The relay moves outbox rows to JetStream: at least once, with message ids by which JetStream
// drops duplicates. Any number of relays may run; each claims subjects for a short time, and has no
// transaction open while it publishes.

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
	"github.com/sluice-rag/sluice/schema/wire"
)

// Outbox provides the relay's messages.
type Outbox interface {
	// RelayOutbox deletes the rows that done says were published, and claims the next ones.
	RelayOutbox(ctx context.Context, done batch.Relayed, r batch.Round) (batch.Taken, error)
}

// HeaderQueued is the header with the time at which a message was queued (RFC 3339 with
// nanoseconds). The stream's own timestamp is the time of publishing.
const HeaderQueued = "Sluice-Queued"

const (
	relayRows       = 1000            // rows of one round, about
	relayPerSubject = 100             // rows of one subject in a round of many, so that none waits for another
	relaySubjects   = 500             // subjects of one round
	ackWait         = 5 * time.Second // for JetStream to confirm a round
	relayLease      = 3 * ackWait     // lease of subjects; after it their relay counts as dead
	minFullPause    = 200 * time.Millisecond
	maxFullPause    = 5 * time.Second
	minBackoff      = 100 * time.Millisecond
	maxBackoff      = 15 * time.Second
	// pollShare is the ratio of an idle relay's longest wait to its first one.
	pollShare = 10
)

// relay is the state of one relay.
type relay struct {
	outbox  Outbox
	js      jetstream.JetStream
	streams Streams
	lease   batch.Lease
	poll    backoff
	full    map[string]fullSubject
	shares  *shares
	after   string
	done    batch.Relayed // what the previous round published; not settled yet
}

// fullSubject is a subject that takes no more messages for now.
type fullSubject struct {
	until time.Time
	pause time.Duration
}

// Streams creates the streams that are missing, for example after NATS was wiped.
type Streams func(ctx context.Context) error

// NewRelay returns the relay. A message on wire.OutboxSubject wakes it. It also polls the outbox,
// less and less often while there is nothing, but at least every o.Poll.
func NewRelay(outbox Outbox, nc *nats.Conn, streams Streams, o Options) (lifecycle.Service, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	// The relay has its own JetStream context, so that a message that JetStream never confirms is
	// forgotten after ackWait.
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncTimeout(ackWait), jetstream.WithPublishAsyncMaxPending(4*relayRows))
	if err != nil {
		return nil, fmt.Errorf("make the relay: %w", err)
	}
	return lifecycle.NewLoop("outbox relay", nil, func(fetch, work context.Context) error {
		wake := make(chan struct{}, 1)
		// Only one of all relays is woken: it goes through the whole outbox.
		sub, err := nc.QueueSubscribe(wire.OutboxSubject, wire.RelayGroup, func(*nats.Msg) {
			select {
			case wake <- struct{}{}:
			default:
			}
		})
		if err != nil {
			slog.WarnContext(work, "cannot subscribe to the outbox; polling it", "subject", wire.OutboxSubject, "error", err)
		} else {
			defer func() { _ = sub.Unsubscribe() }() // closing the connection also ends it
		}
		r := relay{outbox: outbox, js: js, streams: streams, lease: batch.Lease{Holder: o.Holder, TTL: relayLease},
			poll: backoff{first: max(o.Poll/pollShare, time.Millisecond), max: o.Poll}, full: map[string]fullSubject{}, shares: newShares()}
		return r.run(fetch, work, wake)
	}), nil
}

func (r *relay) run(fetch, work context.Context, wake <-chan struct{}) error {
	pause := backoff{first: minBackoff, max: maxBackoff}
	for fetch.Err() == nil {
		more, published, err := r.round(work)
		switch {
		case err != nil:
			slog.WarnContext(work, "cannot relay the outbox; trying again", "pause", pause.next(), "error", err)
			if errors.Is(err, jetstream.ErrNoStreamResponse) || errors.Is(err, jetstream.ErrStreamNotFound) {
				if err := r.streams(fetch); err != nil {
					slog.WarnContext(work, "cannot create the JetStream streams", "error", err)
				}
			}
			pause.sleep(fetch)
			continue
		case published > 0:
			pause.reset()
		}
		if more {
			r.poll.reset()
			continue
		}
		timer := time.NewTimer(r.wait())
		select {
		case <-fetch.Done():
		case <-wake:
			r.poll.reset()
		case <-timer.C:
		}
		timer.Stop()
	}
	if err := r.settle(work); err != nil {
		slog.WarnContext(work, "cannot remove published messages from the outbox; they are published again", "error", err)
	}
	return fetch.Err()
}

// wait returns how long an idle relay waits, at most until a full subject may be tried again, or
// one that has used its share.
func (r *relay) wait() time.Duration {
	wait := r.poll.wait()
	if len(r.shares.used()) > 0 {
		wait = min(wait, max(time.Until(r.shares.next), time.Millisecond))
	}
	for _, f := range r.full {
		wait = min(wait, max(time.Until(f.until), time.Millisecond))
	}
	return wait
}

// settle deletes the rows that the previous round published, and releases its subjects.
func (r *relay) settle(ctx context.Context) error {
	if len(r.done.Subjects) == 0 {
		return nil
	}
	_, err := r.outbox.RelayOutbox(ctx, r.done, batch.Round{})
	if err == nil {
		r.done = batch.Relayed{}
	}
	return err
}

// round settles the previous round, and claims and publishes the next rows. more reports whether
// there may be further rows.
func (r *relay) round(ctx context.Context) (more bool, published int, err error) {
	if !r.js.Conn().IsConnected() {
		return false, 0, errors.Join(errors.New("nats is not connected"), r.settle(ctx))
	}
	now := time.Now()
	skip := slices.Collect(maps.Keys(r.full))
	skip = slices.DeleteFunc(skip, func(s string) bool { return !now.Before(r.full[s].until) })
	if len(r.shares.used()) > 0 {
		if err := r.shares.update(ctx, r.js, nil, now); err != nil {
			return false, 0, errors.Join(err, r.settle(ctx))
		}
		skip = append(skip, r.shares.used()...)
	}
	taken, err := r.outbox.RelayOutbox(ctx, r.done, batch.Round{Lease: r.lease, After: r.after, Skip: skip, Room: r.shares.room(),
		PerSubject: relayPerSubject, Limit: relayRows, Subjects: relaySubjects})
	if err != nil {
		return false, 0, err
	}
	r.after = taken.After
	var sent []int64
	var failure error
	if len(taken.Messages) > 0 {
		if failure = r.shares.update(ctx, r.js, taken.Messages, now); failure == nil {
			sent, failure = r.publish(ctx, r.shares.take(taken.Messages))
		}
	}
	r.done = batch.Relayed{Holder: r.lease.Holder, Sent: sent, Subjects: taken.Subjects}
	if failure != nil { // release the subjects to other relays while this one pauses
		failure = errors.Join(failure, r.settle(ctx))
	}
	return taken.After != "" || len(taken.Subjects) > 0, len(sent), failure
}

// publish sends messages and returns the ids of those that JetStream stored. It sets a subject that
// JetStream refuses aside for a while; it returns any other failure.
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
		r.skipSubject(ctx, subject, why)
	}
	return sent, failure
}

// storeFailed is JetStream's code for a message that a stream did not store.
const storeFailed jetstream.ErrorCode = 10077

// subjectFull reports whether a stream holds the maximum number of messages of a subject. A full
// disk has the same code, so the description decides.
func subjectFull(err *jetstream.APIError) bool {
	return err.ErrorCode == storeFailed && err.Description == "maximum messages per subject exceeded"
}

// skipSubject skips a subject that JetStream refused, for a pause that grows with each refusal.
func (r *relay) skipSubject(ctx context.Context, subject string, why *jetstream.APIError) {
	pause := min(max(2*r.full[subject].pause, minFullPause), maxFullPause)
	switch {
	case !subjectFull(why):
		slog.WarnContext(ctx, "jetstream refuses messages; they wait in the outbox; trying again", "subject", subject, "pause", pause, "error", why)
	case r.full[subject].pause == 0:
		slog.InfoContext(ctx, "a tenant's queue is full; its messages wait in the outbox", "subject", subject)
	}
	r.full[subject] = fullSubject{until: time.Now().Add(pause), pause: pause}
}

func (r *relay) count(ctx context.Context, outcome string) {
	meters.relayed.Add(ctx, 1, metric.WithAttributes(attribute.String("outcome", outcome)))
}
