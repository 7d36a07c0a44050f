package question

// The intake of asynchronous questions: it starts workflows for messages of the work queue. It
// acknowledges a message when its workflow runs; from then on the question's lease says which
// worker is responsible for it.

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/sluice-rag/sluice/internal/lifecycle"
	"github.com/sluice-rag/sluice/schema/wire"
)

const scope = "github.com/sluice-rag/sluice/internal/question"

var tracer = otel.Tracer(scope)

const (
	// openWorkflows is the maximum number of running questions that one worker's intake started.
	openWorkflows = 32
	// maxQuestionTime bounds a workflow, including retries and waiting.
	maxQuestionTime = time.Hour
	// idle bounds one wait for messages.
	idle = 5 * time.Second
)

func (j *Jobs) intake() lifecycle.Service {
	var js jetstream.JetStream
	var open metric.Int64UpDownCounter
	prepare := func(ctx context.Context) (err error) {
		open, err = otel.Meter(scope).Int64UpDownCounter("sluice.questions.open", metric.WithUnit("{question}"),
			metric.WithDescription("asynchronous questions that this worker's intake started and that have not ended"))
		if err != nil {
			return fmt.Errorf("make question metrics: %w", err)
		}
		if js, err = jetstream.New(j.NATS); err != nil {
			return fmt.Errorf("use jetstream: %w", err)
		}
		_, err = j.consumer(ctx, js)
		return err
	}
	return lifecycle.NewLoop("question intake", prepare, func(fetch, work context.Context) error {
		var running sync.WaitGroup
		defer running.Wait()
		slots := make(chan struct{}, openWorkflows)
		for fetch.Err() == nil {
			if err := j.take(fetch, work, js, slots, &running, open); err != nil && fetch.Err() == nil {
				slog.Warn("cannot fetch questions from jetstream; trying again", "error", err)
				pause(fetch, time.Second)
			}
		}
		return nil
	})
}

// consumer creates or updates the streams and the consumer, because NATS may have lost them.
func (j *Jobs) consumer(ctx context.Context, js jetstream.JetStream) (jetstream.Consumer, error) {
	if err := j.Streams(ctx, js); err != nil {
		return nil, err
	}
	consumer, err := js.CreateOrUpdateConsumer(ctx, wire.StreamQuestions, jetstream.ConsumerConfig{
		Durable: wire.ConsumerQuestions, AckPolicy: jetstream.AckExplicitPolicy, AckWait: 30 * time.Second, MaxAckPending: 1000,
	})
	if err != nil {
		return nil, fmt.Errorf("ensure consumer %s: %w", wire.ConsumerQuestions, err)
	}
	return consumer, nil
}

// take starts workflows until NATS fails or fetch ends.
func (j *Jobs) take(fetch, work context.Context, js jetstream.JetStream, slots chan struct{}, running *sync.WaitGroup, open metric.Int64UpDownCounter) error {
	consumer, err := j.consumer(fetch, js)
	if err != nil {
		return err
	}
	for {
		select {
		case slots <- struct{}{}:
		case <-fetch.Done():
			return nil
		}
		<-slots // a slot is free
		wait, cancel := context.WithTimeout(fetch, idle)
		batch, err := consumer.Fetch(openWorkflows-len(slots), jetstream.FetchContext(wait))
		if err != nil {
			cancel()
			return fmt.Errorf("fetch questions: %w", err)
		}
		for msg := range batch.Messages() {
			slots <- struct{}{}
			running.Go(func() {
				defer func() { <-slots }()
				open.Add(work, 1)
				defer open.Add(work, -1)
				j.begin(fetch, work, msg)
			})
		}
		cancel()
		if err := batch.Error(); err != nil && !errors.Is(err, nats.ErrTimeout) && !errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("fetch questions: %w", err)
		}
	}
}

// begin starts a message's workflow and waits until it ends or the worker stops; then the workflow
// goes on without this worker.
func (j *Jobs) begin(fetch, work context.Context, msg jetstream.Msg) {
	m, err := wire.Decode[wire.QuestionMessage](msg.Data())
	switch {
	case errors.Is(err, wire.ErrVersion):
		slog.Warn("a question is from a newer version; it waits for a newer worker", "error", err)
		_ = msg.NakWithDelay(time.Minute)
		return
	case err != nil:
		slog.Error("cannot decode a message of the question queue; dropping it", "error", err)
		_ = msg.TermWithReason("cannot be read")
		return
	}
	ctx := extract(work, msg.Headers())
	if !trace.SpanContextFromContext(ctx).IsValid() {
		ctx = propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": m.Trace})
	}
	run, err := j.startWorkflow(ctx, wire.QuestionInput{Tenant: m.Tenant, Question: m.Question, Attempt: m.Attempt})
	if err != nil {
		slog.WarnContext(ctx, "cannot start a question; it will be delivered again", "tenant", m.Tenant, "question", m.Question, "error", err)
		_ = msg.NakWithDelay(2 * time.Second)
		return
	}
	if err := msg.Ack(); err != nil { // it is delivered again and finds its workflow running
		slog.WarnContext(ctx, "could not acknowledge a question", "question", m.Question, "error", err)
	}
	if run != nil {
		_ = run.Get(fetch, nil) // the outcome is in the store
	}
}

// startWorkflow claims a question and starts its workflow. It returns nil
// without error for a question that needs no work.
func (j *Jobs) startWorkflow(ctx context.Context, in wire.QuestionInput) (client.WorkflowRun, error) {
	ctx, span := tracer.Start(ctx, "start question", trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(
		attribute.String("sluice.tenant", in.Tenant.String()), attribute.String("sluice.question", in.Question.String())))
	defer span.End()
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	claimed, err := j.Store.ClaimQuestion(ctx, in, j.Holder, j.Lease)
	if err != nil || !claimed {
		return nil, err
	}
	run, err := j.Temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID:                       wire.QuestionWorkflowID(in.Question, in.Attempt),
		TaskQueue:                wire.TaskQueueQuestions,
		WorkflowExecutionTimeout: maxQuestionTime,
		WorkflowIDReusePolicy:    enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		Priority:                 temporal.Priority{FairnessKey: in.Tenant.String()},
	}, wire.WorkflowAnswerQuestion, in)
	if err != nil {
		span.RecordError(err)
		return nil, fmt.Errorf("start workflow: %w", err)
	}
	return run, nil
}

// canceller cancels the workflows of questions that were cancelled in the store. If a notification
// is lost, only the current step runs on: every step checks the store first.
func (j *Jobs) canceller() lifecycle.Service {
	var sub *nats.Subscription
	prepare := func(context.Context) (err error) {
		sub, err = j.NATS.QueueSubscribeSync(wire.QuestionEvents(wire.EventQuestionCancelled), wire.QueryGroup)
		if err != nil {
			return fmt.Errorf("listen for cancelled questions: %w", err)
		}
		return nil
	}
	return lifecycle.NewLoop("question canceller", prepare, func(fetch, work context.Context) error {
		defer sub.Unsubscribe() //nolint:errcheck // the connection's end ends it too
		for {
			msg, err := sub.NextMsgWithContext(fetch)
			switch {
			case fetch.Err() != nil:
				return nil
			case errors.Is(err, nats.ErrSlowConsumer):
				continue
			case err != nil:
				return fmt.Errorf("listen for cancelled questions: %w", err)
			}
			e, err := wire.Decode[wire.QuestionEvent](msg.Data)
			if err != nil {
				slog.Warn("cannot decode an event", "subject", msg.Subject, "error", err)
				continue
			}
			j.cancelWorkflow(extract(work, msg.Header), e.Question, e.Attempt)
		}
	})
}

func (j *Jobs) cancelWorkflow(ctx context.Context, question uuid.UUID, attempt int) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	err := j.Temporal.CancelWorkflow(ctx, wire.QuestionWorkflowID(question, attempt), "")
	var notFound *serviceerror.NotFound
	if err != nil && !errors.As(err, &notFound) {
		slog.WarnContext(ctx, "could not cancel a question's workflow", "question", question, "error", err)
	}
}

// extract returns ctx with the trace context of a message.
func extract(ctx context.Context, header nats.Header) context.Context {
	return otel.GetTextMapPropagator().Extract(ctx, propagation.HeaderCarrier(header))
}

// pause waits for d or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
