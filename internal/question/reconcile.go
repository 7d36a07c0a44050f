package question

// The reconciler looks for unfinished questions that no worker works on. It checks a question once
// its lease is over. If the question's workflow still runs, it extends the lease. If the workflow
// is gone (Temporal was wiped), or the message never arrived (NATS was wiped), it queues the
// question again under its next attempt.

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
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"

	"github.com/sluice-rag/sluice/internal/lifecycle"
	"github.com/sluice-rag/sluice/schema/wire"
)

const (
	// abandonedAfter is the age at which a synchronous question counts as abandoned in any case:
	// none runs for longer than MaxTime.
	abandonedAfter = MaxTime + 5*time.Minute
	// atOnce is the maximum number of questions per query of a round.
	atOnce = 100
)

func (j *Jobs) reconciler() lifecycle.Service {
	meters := sync.OnceValues(newQueueMeters)
	return lifecycle.NewLeaderLoop(lifecycle.LeaderLoop{Name: "question reconciler", Elector: j.Elector, Every: j.Every,
		Round: func(_, work context.Context) error {
			err := j.reconcile(work)
			queue, failure := meters()
			if failure == nil {
				failure = measure(work, queue, j.NATS)
			}
			return errors.Join(err, failure)
		},
		// The leader measures the queue; the gauges of the other processes must not keep their last
		// values.
		Standby: func(ctx context.Context, _ error) {
			if queue, err := meters(); err == nil {
				queue.messages.Record(ctx, 0)
				queue.age.Record(ctx, 0)
			}
		},
	})
}

func measure(ctx context.Context, queue queueMeters, nc *nats.Conn) error {
	js, err := jetstream.New(nc)
	if err != nil {
		return fmt.Errorf("use jetstream: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return queue.record(ctx, js)
}

func (j *Jobs) reconcile(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	expired, err := j.Store.ExpiredQuestions(ctx, atOnce)
	if err != nil {
		return err
	}
	for _, q := range expired {
		if err := j.checkExpired(ctx, q); err != nil {
			return err
		}
	}
	if err := j.requeueStranded(ctx); err != nil {
		return err
	}
	n, err := j.Store.FailAbandoned(ctx, j.Grace, abandonedAfter)
	if n > 0 {
		slog.WarnContext(ctx, "ended questions whose worker is gone", "questions", n)
	}
	return err
}

func (j *Jobs) checkExpired(ctx context.Context, q wire.QuestionInput) error {
	d, err := j.Temporal.DescribeWorkflowExecution(ctx, wire.QuestionWorkflowID(q.Question, q.Attempt), "")
	var notFound *serviceerror.NotFound
	switch {
	case err != nil && !errors.As(err, &notFound):
		return fmt.Errorf("look at the workflow of question %s: %w", q.Question, err)
	case err == nil && d.GetWorkflowExecutionInfo().GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING:
		_, err := j.Store.ClaimQuestion(ctx, q, j.Holder, j.Lease)
		return err
	}
	return j.requeue(ctx, q)
}

func (j *Jobs) requeue(ctx context.Context, q wire.QuestionInput) error {
	moved, err := j.Store.RequeueQuestion(ctx, q)
	if moved {
		slog.WarnContext(ctx, "a question was lost; queued it again", "tenant", q.Tenant, "question", q.Question, "attempt", q.Attempt+1)
	}
	return err
}

// requeueStranded queues questions again that were published but never claimed, unless their
// message may still wait in the stream.
func (j *Jobs) requeueStranded(ctx context.Context) error {
	before := time.Now().Add(-2 * j.Lease)
	tenants, err := j.Store.WaitingTenants(ctx, before)
	if err != nil || len(tenants) == 0 {
		return err
	}
	js, err := jetstream.New(j.NATS)
	if err != nil {
		return fmt.Errorf("use jetstream: %w", err)
	}
	for _, tenant := range tenants {
		published, err := oldest(ctx, js, tenant)
		if err != nil {
			return err
		}
		stranded, err := j.Store.StrandedQuestions(ctx, tenant, earlier(before, published.Add(-j.Lease)), atOnce)
		if err != nil {
			return err
		}
		for _, q := range stranded {
			if err := j.requeue(ctx, q); err != nil {
				return err
			}
		}
	}
	return nil
}

// oldest returns when a tenant's oldest waiting message was published, or the current time if none
// waits.
func oldest(ctx context.Context, js jetstream.JetStream, tenant uuid.UUID) (time.Time, error) {
	stream, err := js.Stream(ctx, wire.StreamQuestions)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return time.Now(), nil
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("look into stream %s: %w", wire.StreamQuestions, err)
	}
	msg, err := stream.GetMsg(ctx, 1, jetstream.WithGetMsgSubject(wire.QuestionsSubject(tenant)))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return time.Now(), nil
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("look for the oldest question of tenant %s: %w", tenant, err)
	}
	return msg.Time, nil
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
