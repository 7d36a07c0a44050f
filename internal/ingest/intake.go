package ingest

// The intake takes messages from JetStream, forms batches and starts their workflows. It stops
// taking messages while the maximum number of batches is open.

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

// Claims claims versions under lease.
type Claims interface {
	ClaimVersions(ctx context.Context, tenant uuid.UUID, items []wire.Attempt, l batch.Lease) ([]wire.Attempt, error)
	ReleaseVersions(ctx context.Context, tenant uuid.UUID, items []wire.Attempt) error
	ExtendLeases(ctx context.Context, tenant uuid.UUID, items []wire.Attempt, l batch.Lease) ([]uuid.UUID, error)
}

// Workflows starts batches and waits for their end.
type Workflows interface {
	// Start starts the workflow of a batch under an id, or joins it if it is already running.
	Start(ctx context.Context, id string, b wire.IngestVersions) error
	// Wait returns when the workflow has ended, in whatever way, or is unknown.
	Wait(ctx context.Context, id string) error
}

const (
	deliveryWait    = 10 * time.Second // until JetStream delivers an unconfirmed message again
	pullWait        = 5 * time.Second  // timeout of one pull request
	unreadableDelay = time.Minute      // until a message that can't be read is tried again

	// deepBacklogGrowth is how many times the usual size a batch may have while many versions wait,
	// in versions up to maxBatch, which keeps the events of its workflow small.
	deepBacklogGrowth = 8
	maxBatch          = 4000
	// smallBytes is the maximum size of a version that shares a batch with other tenants' versions.
	// Parsing one of that size takes hardly any time.
	smallBytes = 64 << 10
	// maxLinks is how many traces a batch links to: the limit of links of a span.
	maxLinks = 128
)

// delivery is a message that the intake holds.
type delivery struct {
	msg  jetstream.Msg
	body wire.IngestMessage
}

// intake is the state of one run of the intake. Only its loop touches it.
type intake struct {
	claims    Claims
	workflows Workflows
	consumer  jetstream.Consumer
	options   Options

	waiting *fairness.Background[*delivery] // messages without a batch; it also bounds the open batches
	hand    int                             // messages in waiting
	bytes   int64                           // bytes of the versions in waiting
	since   time.Time                       // about when the oldest of them arrived
	pending uint64                          // messages in the stream after the last one that was taken
	ended   chan fairness.Batch[*delivery]
	runners sync.WaitGroup
}

// NewIntake returns the intake.
func NewIntake(claims Claims, workflows Workflows, js jetstream.JetStream, streams Streams, searches *fairness.Foreground, o Options) (lifecycle.Service, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	return lifecycle.NewLoop("intake", nil, func(fetch, work context.Context) error {
		pause := backoff{first: minBackoff, max: maxBackoff}
		for fetch.Err() == nil {
			err := runIntake(fetch, work, claims, workflows, js, streams, searches, o, &pause)
			if fetch.Err() != nil {
				break
			}
			slog.WarnContext(work, "cannot fetch messages; trying again", "pause", pause.next(), "error", err)
			pause.sleep(fetch)
		}
		return fetch.Err()
	}), nil
}

// runIntake runs the intake until it can't continue. By its return, the batches that it began have
// been passed to Temporal or handed back, and so have been the messages without a batch.
func runIntake(fetch, work context.Context, claims Claims, workflows Workflows, js jetstream.JetStream, streams Streams, searches *fairness.Foreground, o Options, pause *backoff) error {
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
		waiting: fairness.NewBackground[*delivery](searches, o.Batches, o.BatchesInSearches), ended: make(chan fairness.Batch[*delivery]),
	}
	err = in.run(fetch, work, pause)
	in.nakWaiting(work)
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
		for in.due(time.Now()) {
			in.begin(fetch, work)
		}
		if messages == nil && in.hand < in.max() && in.waiting.Free(time.Now()) {
			stopPull()
			pulling, stop := context.WithTimeout(fetch, pullWait)
			stopPull = stop
			var err error
			if pull, err = in.consumer.Fetch(in.max()-in.hand, jetstream.FetchContext(pulling)); err != nil {
				return fmt.Errorf("pull messages: %w", err)
			}
			messages = pull.Messages()
		}
		now := time.Now()
		timer := time.NewTimer(min(in.untilDue(now), in.waiting.UntilFree(now)))
		select {
		case <-fetch.Done():
			timer.Stop()
			return fetch.Err()
		case msg, more := <-messages:
			if !more {
				messages, in.pending = nil, 0
				if err := pull.Error(); err != nil && !errors.Is(err, context.DeadlineExceeded) && fetch.Err() == nil {
					timer.Stop()
					return fmt.Errorf("pull messages: %w", err)
				}
				pause.reset()
				break
			}
			in.take(work, msg)
		case batch := <-in.ended:
			in.waiting.EndBatch(batch, time.Now())
		case <-alive.C:
			in.extendAckWait(work)
		case <-timer.C:
		}
		timer.Stop()
	}
}

// take adds a message to those that wait. A message that this build can't read is handed back for a
// newer build.
func (in *intake) take(ctx context.Context, msg jetstream.Msg) {
	body, err := wire.Decode[wire.IngestMessage](msg.Data())
	if err == nil && (body.Tenant == uuid.Nil || body.Collection == uuid.Nil || body.Version == uuid.Nil || body.Attempt < 1 ||
		wire.IngestSubject(body.Tenant) != msg.Subject()) {
		err = errors.New("its ids are incomplete or do not fit its subject")
	}
	if err != nil {
		slog.ErrorContext(ctx, "cannot decode a message; it stays in the stream: a newer version of this worker may be needed",
			"subject", msg.Subject(), "retry", unreadableDelay, "error", err)
		if err := msg.NakWithDelay(unreadableDelay); err != nil {
			slog.WarnContext(ctx, "cannot return a message to its stream", "subject", msg.Subject(), "error", err)
		}
		return
	}
	now := time.Now()
	if in.hand == 0 {
		in.since = now
	}
	if meta, err := msg.Metadata(); err == nil {
		in.pending = meta.NumPending
	}
	in.hand++
	in.bytes += body.Bytes
	in.waiting.Put(body.Tenant, &delivery{msg, body}, now)
}

// max returns the number of versions in the largest possible batch, which is also the number of
// messages that may wait.
func (in *intake) max() int { return min(in.options.BatchVersions*deepBacklogGrowth, maxBatch) }

// size returns how many versions a batch may have now. If more versions wait than Batches batches
// of the usual size can take, batches are larger: a batch costs about the same however many
// versions it has.
func (in *intake) size() int {
	usual := in.options.BatchVersions
	for d := range in.waiting.All() {
		if d.body.Attempt > 1 {
			return usual // one that may have killed a worker shares no larger batch than usual
		}
	}
	return min(max(usual, (in.hand+int(in.pending))/in.options.Batches), in.max())
}

// due reports whether a batch may begin now, because one is allowed to run and the messages that
// wait fill it or have waited long enough.
func (in *intake) due(now time.Time) bool {
	if in.hand == 0 || !in.waiting.Free(now) {
		return false
	}
	return now.Sub(in.since) >= in.options.BatchWait || in.bytes >= in.options.BatchBytes*deepBacklogGrowth || in.hand >= in.size()
}

// untilDue returns the time until a batch may be due.
func (in *intake) untilDue(now time.Time) time.Duration {
	if in.hand == 0 || !in.waiting.Free(now) {
		return time.Minute
	}
	return max(in.options.BatchWait-now.Sub(in.since), 0)
}

// extendAckWait keeps JetStream from delivering the messages that wait to another consumer.
func (in *intake) extendAckWait(ctx context.Context) {
	in.eachWaiting(func(h *delivery) {
		if err := h.msg.InProgress(); err != nil {
			slog.WarnContext(ctx, "cannot extend the acknowledgement time of a message", "version", h.body.Version, "error", err)
		}
	})
}

// nakWaiting hands the messages that wait back to JetStream.
func (in *intake) nakWaiting(ctx context.Context) {
	in.eachWaiting(func(h *delivery) { nak(ctx, h) })
}

func (in *intake) eachWaiting(do func(*delivery)) {
	for d := range in.waiting.All() {
		do(d)
	}
}

func nak(ctx context.Context, h *delivery) {
	if err := h.msg.Nak(); err != nil {
		slog.WarnContext(ctx, "cannot return a message to its stream", "version", h.body.Version, "error", err)
	}
}

// begin forms a batch of what is next and runs it in its own goroutine.
func (in *intake) begin(fetch, work context.Context) {
	size := in.size()
	growth := int64(size+in.options.BatchVersions-1) / int64(in.options.BatchVersions)
	batch, found := in.waiting.NextBatch(time.Now(), fairness.BatchLimits[*delivery]{
		Size:  func(d *delivery) int64 { return d.body.Bytes },
		Items: size, Total: in.options.BatchBytes * growth,
		Share: in.options.BatchVersions, ShareTotal: in.options.BatchBytes,
		Small: smallBytes,
	})
	if !found {
		return
	}
	since := in.since
	in.hand -= len(batch.Items)
	for _, d := range batch.Items {
		in.bytes -= d.body.Bytes
	}
	meters.open.Add(work, 1)
	in.runners.Go(func() {
		b := starter{claims: in.claims, workflows: in.workflows, options: in.options, messages: batch.Items}
		b.run(fetch, work)
		meters.wait.Record(work, time.Since(since).Seconds())
		meters.open.Add(work, -1)
		in.ended <- batch
	})
}

// starter takes one batch from messages to the end of its workflow.
type starter struct {
	claims    Claims
	workflows Workflows
	options   Options
	messages  []*delivery
}

// run claims the versions, starts the workflow, confirms the messages and waits for the workflow to
// end. If fetch ends first, the workflow goes on running.
func (s *starter) run(fetch, work context.Context) {
	in, id := s.batch()
	ctx, span := tracer.Start(work, "ingest batch", trace.WithNewRoot(), links(in.Links), trace.WithAttributes(
		attribute.Int("sluice.collections", len(in.Parts)),
		attribute.Int("sluice.versions", in.Versions())))
	defer span.End()
	log := slog.With("batch", id, "collections", len(in.Parts))

	var claimed wire.IngestVersions
	claimed, err := s.claim(fetch, ctx, in)
	if err == nil && len(claimed.Parts) > 0 {
		err = s.retry(fetch, ctx, claimed, "start a workflow", func() error { return s.workflows.Start(ctx, id, claimed) })
	}
	if err != nil {
		log.InfoContext(ctx, "returning the messages of a batch to their stream", "versions", in.Versions(), "error", err)
		s.releaseClaims(ctx, claimed)
		return
	}
	for _, h := range s.messages {
		if err := h.msg.Ack(); err != nil {
			// The message is delivered again; its version is then claimed already, and the message
			// is confirmed.
			log.WarnContext(ctx, "cannot acknowledge a message", "tenant", h.body.Tenant, "version", h.body.Version, "error", err)
		}
	}
	if len(claimed.Parts) == 0 {
		return
	}
	log.DebugContext(ctx, "batch started", "versions", claimed.Versions(), "of", len(s.messages))
	pause := backoff{first: minBackoff, max: maxBackoff}
	for fetch.Err() == nil {
		err := s.workflows.Wait(fetch, id)
		if err == nil || fetch.Err() != nil {
			return
		}
		log.WarnContext(ctx, "cannot wait for a batch; trying again", "error", err)
		pause.sleep(fetch)
	}
}

// batch returns the workflow's input for the messages, and the workflow's id.
func (s *starter) batch() (wire.IngestVersions, string) {
	var in wire.IngestVersions
	var ids []string
	seen := map[wire.Attempt]bool{}
	traces := map[string]bool{}
	at := map[[2]uuid.UUID]int{} // index in Parts by tenant and collection
	for _, h := range s.messages {
		item := wire.Attempt{Version: h.body.Version, Attempt: h.body.Attempt}
		if seen[item] {
			continue
		}
		seen[item] = true
		key := [2]uuid.UUID{h.body.Tenant, h.body.Collection}
		i, found := at[key]
		if !found {
			i = len(in.Parts)
			at[key] = i
			in.Parts = append(in.Parts, wire.IngestBatch{Tenant: h.body.Tenant, Collection: h.body.Collection})
		}
		in.Parts[i].Items = append(in.Parts[i].Items, item)
		ids = append(ids, wire.IngestMessageID(item.Version, item.Attempt))
		if t := h.body.Trace; t != "" && !traces[t] && len(in.Links) < maxLinks {
			traces[t] = true
			in.Links = append(in.Links, t)
		}
	}
	return in, wire.BatchWorkflowID(ids)
}

// claim claims the versions, tenant by tenant. It returns the claimed ones, even with an error.
func (s *starter) claim(fetch, ctx context.Context, in wire.IngestVersions) (claimed wire.IngestVersions, err error) {
	claimed.Links = in.Links
	for _, w := range byTenant(in) {
		var got []wire.Attempt
		err := s.retry(fetch, ctx, claimed, "claim versions", func() (err error) {
			got, err = s.claims.ClaimVersions(ctx, w.tenant, w.items(), s.options.lease())
			return err
		})
		if err != nil {
			return claimed, err
		}
		own := make(map[wire.Attempt]bool, len(got))
		for _, item := range got {
			own[item] = true
		}
		claimed.Parts = append(claimed.Parts, w.only(func(item wire.Attempt) bool { return own[item] }).parts...)
	}
	return claimed, nil
}

// retry calls try until it succeeds or fetch ends. Meanwhile it keeps the messages and the leases
// of what is claimed.
func (s *starter) retry(fetch, ctx context.Context, claimed wire.IngestVersions, what string, try func() error) error {
	pause := backoff{first: minBackoff, max: min(maxBackoff, s.options.Lease/4)}
	touched := time.Now()
	for {
		err := try()
		if err == nil {
			return nil
		}
		if fetch.Err() != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		slog.WarnContext(ctx, "cannot "+what+"; trying again", "pause", pause.next(), "error", err)
		pause.sleep(fetch)
		if time.Since(touched) < min(deliveryWait/3, s.options.Lease/4) {
			continue
		}
		touched = time.Now()
		for _, h := range s.messages {
			if err := h.msg.InProgress(); err != nil {
				break // it is delivered again and finds its version claimed
			}
		}
		for _, w := range byTenant(claimed) {
			if _, err := s.claims.ExtendLeases(ctx, w.tenant, w.items(), s.options.lease()); err != nil {
				slog.WarnContext(ctx, "cannot extend leases", "tenant", w.tenant, "error", err)
				break
			}
		}
	}
}

// releaseClaims releases the claims and hands the messages back, so that they are delivered again.
func (s *starter) releaseClaims(ctx context.Context, claimed wire.IngestVersions) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	for _, w := range byTenant(claimed) {
		if err := s.claims.ReleaseVersions(ctx, w.tenant, w.items()); err != nil {
			slog.WarnContext(ctx, "cannot release versions; they are queued again when their lease ends", "tenant", w.tenant, "error", err)
		}
	}
	for _, h := range s.messages {
		nak(ctx, h)
	}
}
