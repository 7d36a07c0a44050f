package ingest

// The intake takes messages from JetStream, makes batches of them and starts
// their workflows. It takes no more while it holds as many open batches as it may.

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/sluice-rag/sluice/internal/fairness"
	"github.com/sluice-rag/sluice/internal/ingest/batch"
	"github.com/sluice-rag/sluice/internal/lifecycle"
	"github.com/sluice-rag/sluice/schema/wire"
)

// Claims is where the intake takes versions under lease.
type Claims interface {
	ClaimVersions(ctx context.Context, tenant uuid.UUID, items []wire.Attempt, l batch.Lease) ([]wire.Attempt, error)
	ReleaseVersions(ctx context.Context, tenant uuid.UUID, items []wire.Attempt) error
	ExtendLeases(ctx context.Context, tenant uuid.UUID, items []wire.Attempt, l batch.Lease) ([]uuid.UUID, error)
}

// Workflows starts batches and waits for their end.
type Workflows interface {
	// Start starts the workflow of a batch under an id. One that runs already is
	// joined.
	Start(ctx context.Context, id string, b wire.IngestBatch) error
	// Wait returns when the workflow has ended, in whatever way, or is unknown.
	Wait(ctx context.Context, id string) error
}

const (
	deliveryWait    = 10 * time.Second // until JetStream delivers an unconfirmed message again
	pullWait        = 5 * time.Second  // of one pull request
	unreadableDelay = time.Minute      // until a message that can't be read is tried again
)

// delivery is a message in hand.
type delivery struct {
	msg  jetstream.Msg
	body wire.IngestMessage
}

// group is messages of one collection that will be a batch.
type group struct {
	tenant, collection uuid.UUID
	items              []delivery
	bytes              int64
	since              time.Time
}

type collectionKey struct{ tenant, collection uuid.UUID }

// intake is the state of one run of the intake. Only its loop touches it.
type intake struct {
	claims    Claims
	workflows Workflows
	consumer  jetstream.Consumer
	options   Options

	filling map[collectionKey]*group
	sealed  *fairness.Background[*group] // full; of them as many are open as may be
	ended   chan uuid.UUID               // the tenant of each batch that has ended
	runners sync.WaitGroup
}

// NewIntake makes the intake.
func NewIntake(claims Claims, workflows Workflows, js jetstream.JetStream, streams Streams, searches *fairness.Foreground, o Options) (lifecycle.Service, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	return lifecycle.NewLoop("intake", nil, func(fetch, work context.Context) error {
		pause := backoff{first: backoffFirst, most: backoffMost}
		for fetch.Err() == nil {
			err := takeIn(fetch, work, claims, workflows, js, streams, searches, o, &pause)
			if fetch.Err() != nil {
				break
			}
			slog.WarnContext(work, "cannot take messages in; trying again", "pause", pause.next(), "error", err)
			pause.sleep(fetch)
		}
		return fetch.Err()
	}), nil
}

// takeIn runs the intake until it can't go on. The batches it has begun are
// then at Temporal, and the messages without a batch are handed back.
func takeIn(fetch, work context.Context, claims Claims, workflows Workflows, js jetstream.JetStream, streams Streams, searches *fairness.Foreground, o Options, pause *backoff) error {
	if err := streams(fetch); err != nil {
		return err
	}
	consumer, err := js.CreateOrUpdateConsumer(fetch, wire.StreamIngest, jetstream.ConsumerConfig{
		Durable: wire.ConsumerIngest, AckPolicy: jetstream.AckExplicitPolicy, AckWait: deliveryWait, MaxDeliver: -1,
		MaxAckPending: 10_000,
	})
	if err != nil {
		return fmt.Errorf("make consumer %s: %w", wire.ConsumerIngest, err)
	}
	in := intake{
		claims: claims, workflows: workflows, consumer: consumer, options: o,
		filling: map[collectionKey]*group{}, sealed: fairness.NewBackground[*group](searches, o.Batches, o.BatchesInSearches), ended: make(chan uuid.UUID),
	}
	err = in.run(fetch, work, pause)
	in.handBack(work)
	done := make(chan struct{})
	go func() {
		in.runners.Wait()
		close(done)
	}()
	for {
		select {
		case <-in.ended:
		case <-done:
			return err
		}
	}
}

func (in *intake) run(fetch, work context.Context, pause *backoff) error {
	var pull jetstream.MessageBatch
	var messages <-chan jetstream.Msg
	alive := time.NewTicker(deliveryWait / 3)
	defer alive.Stop()
	stopPull := func() {}
	defer func() { stopPull() }()
	for {
		in.seal(time.Now())
		for g, found := in.sealed.Next(time.Now()); found; g, found = in.sealed.Next(time.Now()) {
			in.begin(fetch, work, g)
		}
		if messages == nil && in.sealed.Idle(time.Now()) {
			stopPull()
			pulling, stop := context.WithTimeout(fetch, pullWait)
			stopPull = stop
			var err error
			if pull, err = in.consumer.Fetch(in.options.BatchVersions, jetstream.FetchContext(pulling)); err != nil {
				return fmt.Errorf("pull messages: %w", err)
			}
			messages = pull.Messages()
		}
		now := time.Now()
		timer := time.NewTimer(min(in.untilSeal(now), in.sealed.Until(now)))
		select {
		case <-fetch.Done():
			timer.Stop()
			return fetch.Err()
		case msg, more := <-messages:
			if !more {
				messages = nil
				if err := pull.Error(); err != nil && !errors.Is(err, context.DeadlineExceeded) && fetch.Err() == nil {
					timer.Stop()
					return fmt.Errorf("pull messages: %w", err)
				}
				pause.reset()
				break
			}
			in.take(work, msg)
		case tenant := <-in.ended:
			in.sealed.End(tenant, time.Now())
		case <-alive.C:
			in.holdOn(work)
		case <-timer.C:
		}
		timer.Stop()
	}
}

// take puts a message into the group of its collection. One that this build
// can't read is kept for one that can.
func (in *intake) take(ctx context.Context, msg jetstream.Msg) {
	body, err := wire.Decode[wire.IngestMessage](msg.Data())
	if err == nil && (body.Tenant == uuid.Nil || body.Collection == uuid.Nil || body.Version == uuid.Nil || body.Attempt < 1 ||
		wire.IngestSubject(body.Tenant) != msg.Subject()) {
		err = errors.New("its ids are incomplete or do not fit its subject")
	}
	if err != nil {
		slog.ErrorContext(ctx, "a message can't be read; it stays in the stream: is there a newer version of this worker?",
			"subject", msg.Subject(), "retry", unreadableDelay, "error", err)
		if err := msg.NakWithDelay(unreadableDelay); err != nil {
			slog.WarnContext(ctx, "cannot hand a message back", "subject", msg.Subject(), "error", err)
		}
		return
	}
	key := collectionKey{body.Tenant, body.Collection}
	g := in.filling[key]
	if g != nil && (len(g.items) >= in.options.BatchVersions || g.bytes+body.Bytes > in.options.BatchBytes) {
		in.sealed.Put(g.tenant, g, time.Now())
		g = nil
	}
	if g == nil {
		g = &group{tenant: body.Tenant, collection: body.Collection, since: time.Now()}
		in.filling[key] = g
	}
	g.items = append(g.items, delivery{msg, body})
	g.bytes += body.Bytes
}

// seal closes the groups that are full or have waited long enough.
func (in *intake) seal(now time.Time) {
	for key, g := range in.filling {
		if len(g.items) >= in.options.BatchVersions || g.bytes >= in.options.BatchBytes || now.Sub(g.since) >= in.options.BatchWait {
			in.sealed.Put(g.tenant, g, now)
			delete(in.filling, key)
		}
	}
}

// untilSeal is how long no group is due.
func (in *intake) untilSeal(now time.Time) time.Duration {
	wait := time.Minute
	for _, g := range in.filling {
		wait = min(wait, max(in.options.BatchWait-now.Sub(g.since), 0))
	}
	return wait
}

// holdOn keeps JetStream from delivering what waits in hand to someone else.
func (in *intake) holdOn(ctx context.Context) {
	in.eachWaiting(func(h delivery) {
		if err := h.msg.InProgress(); err != nil {
			slog.WarnContext(ctx, "cannot hold on to a message", "version", h.body.Version, "error", err)
		}
	})
}

// handBack lets others have what waits in hand.
func (in *intake) handBack(ctx context.Context) {
	in.eachWaiting(func(h delivery) { nak(ctx, h) })
}

func (in *intake) eachWaiting(do func(delivery)) {
	for _, g := range in.filling {
		for _, h := range g.items {
			do(h)
		}
	}
	for g := range in.sealed.All() {
		for _, h := range g.items {
			do(h)
		}
	}
}

func nak(ctx context.Context, h delivery) {
	if err := h.msg.Nak(); err != nil {
		slog.WarnContext(ctx, "cannot hand a message back", "version", h.body.Version, "error", err)
	}
}

// begin runs a batch in a goroutine of its own.
func (in *intake) begin(fetch, work context.Context, g *group) {
	meters.open.Add(work, 1)
	in.runners.Go(func() {
		b := starter{claims: in.claims, workflows: in.workflows, options: in.options, group: g}
		b.run(fetch, work)
		meters.wait.Record(work, time.Since(g.since).Seconds())
		meters.open.Add(work, -1)
		in.ended <- g.tenant
	})
}

// starter takes one batch from messages to the end of its workflow.
type starter struct {
	claims    Claims
	workflows Workflows
	options   Options
	group     *group
}

// run claims the versions, starts the workflow, confirms the messages and waits
// for the workflow's end. When fetch ends, a workflow that runs is left to run.
func (s *starter) run(fetch, work context.Context) {
	in, id := s.batch()
	ctx, span := tracer.Start(work, "ingest batch", trace.WithNewRoot(), links(in.Links), trace.WithAttributes(
		attribute.String("sluice.tenant", in.Tenant.String()),
		attribute.String("sluice.collection", in.Collection.String()),
		attribute.Int("sluice.versions", len(in.Items))))
	defer span.End()
	log := slog.With("tenant", in.Tenant, "collection", in.Collection, "batch", id)

	claimed := false
	err := s.retry(fetch, ctx, nil, "claim versions", func() error {
		var err error
		in.Items, err = s.claims.ClaimVersions(ctx, in.Tenant, in.Items, s.options.lease())
		claimed = err == nil
		return err
	})
	if err == nil && len(in.Items) > 0 {
		err = s.retry(fetch, ctx, in.Items, "start a workflow", func() error { return s.workflows.Start(ctx, id, in) })
	}
	if err != nil {
		log.InfoContext(ctx, "handing a batch back", "versions", len(in.Items), "error", err)
		s.giveBack(ctx, in, claimed)
		return
	}
	for _, h := range s.group.items {
		if err := h.msg.Ack(); err != nil {
			// It comes again, finds its version claimed, and is confirmed then.
			log.WarnContext(ctx, "cannot confirm a message", "version", h.body.Version, "error", err)
		}
	}
	if len(in.Items) == 0 {
		return
	}
	log.DebugContext(ctx, "batch started", "versions", len(in.Items), "of", len(s.group.items), "bytes", s.group.bytes)
	pause := backoff{first: backoffFirst, most: backoffMost}
	for fetch.Err() == nil {
		err := s.workflows.Wait(fetch, id)
		if err == nil || fetch.Err() != nil {
			return
		}
		log.WarnContext(ctx, "cannot wait for a batch; trying again", "error", err)
		pause.sleep(fetch)
	}
}

// batch is the group as a workflow's input, and its workflow's id.
func (s *starter) batch() (wire.IngestBatch, string) {
	in := wire.IngestBatch{Tenant: s.group.tenant, Collection: s.group.collection}
	var ids []string
	seen := map[wire.Attempt]bool{}
	traces := map[string]bool{}
	for _, h := range s.group.items {
		item := wire.Attempt{Version: h.body.Version, Attempt: h.body.Attempt}
		if seen[item] {
			continue
		}
		seen[item] = true
		in.Items = append(in.Items, item)
		ids = append(ids, wire.IngestMessageID(item.Version, item.Attempt))
		if t := h.body.Trace; t != "" && !traces[t] {
			traces[t] = true
			in.Links = append(in.Links, t)
		}
	}
	return in, wire.BatchWorkflowID(ids)
}

// retry tries until it works or fetch ends, and keeps the messages and the
// leases of items meanwhile.
func (s *starter) retry(fetch, ctx context.Context, items []wire.Attempt, what string, try func() error) error {
	pause := backoff{first: backoffFirst, most: min(backoffMost, s.options.Lease/4)}
	touched := time.Now()
	for {
		err := try()
		if err == nil {
			return nil
		}
		if fetch.Err() != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		slog.WarnContext(ctx, "cannot "+what+"; trying again", "tenant", s.group.tenant, "pause", pause.next(), "error", err)
		pause.sleep(fetch)
		if time.Since(touched) < min(deliveryWait/3, s.options.Lease/4) {
			continue
		}
		touched = time.Now()
		for _, h := range s.group.items {
			if err := h.msg.InProgress(); err != nil {
				break // it comes again, and finds its version claimed
			}
		}
		if len(items) > 0 {
			if _, err := s.claims.ExtendLeases(ctx, s.group.tenant, items, s.options.lease()); err != nil {
				slog.WarnContext(ctx, "cannot extend leases", "tenant", s.group.tenant, "error", err)
			}
		}
	}
}

// giveBack undoes a claim, so that the messages may be delivered again.
func (s *starter) giveBack(ctx context.Context, in wire.IngestBatch, claimed bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if claimed && len(in.Items) > 0 {
		if err := s.claims.ReleaseVersions(ctx, in.Tenant, in.Items); err != nil {
			slog.WarnContext(ctx, "cannot release versions; they are queued again when their lease ends", "tenant", in.Tenant, "error", err)
		}
	}
	for _, h := range s.group.items {
		nak(ctx, h)
	}
}
