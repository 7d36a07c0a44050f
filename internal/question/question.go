// Package question runs questions as jobs: it takes them from their queue and starts their
// workflows (intake.go), runs the steps (steps.go), recovers lost ones (reconcile.go), and learns
// afterwards what the language model knew without retrieval (shadow.go). It also stores slow
// searches and questions (slow.go). Package answer answers the questions.
package question

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.temporal.io/sdk/client"

	"github.com/sluice-rag/sluice/internal/lifecycle"
	"github.com/sluice-rag/sluice/internal/question/answer"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// MaxTime is the maximum time of a synchronous question, whatever its deadline is.
const MaxTime = time.Hour

// Grace is how long after the asker's deadline the worker of a synchronous question may still be
// ending it.
const Grace = 15 * time.Second

// Store stores the questions of all tenants.
type Store interface {
	Question(ctx context.Context, in wire.QuestionInput) (answer.Question, error)
	Cancel(ctx context.Context, in wire.QuestionInput) error

	// ClaimQuestion claims a question or renews its lease. It returns false if the question needs
	// no work or belongs to another holder.
	ClaimQuestion(ctx context.Context, in wire.QuestionInput, holder string, lease time.Duration) (bool, error)
	// ExpiredQuestions returns questions whose lease is over.
	ExpiredQuestions(ctx context.Context, limit int) ([]wire.QuestionInput, error)
	// RequeueQuestion queues a question under its next attempt, unless it has ended or is at
	// another attempt.
	RequeueQuestion(ctx context.Context, in wire.QuestionInput) (bool, error)
	// WaitingTenants returns the tenants with questions that were published before a time and that
	// nobody has claimed.
	WaitingTenants(ctx context.Context, before time.Time) ([]uuid.UUID, error)
	StrandedQuestions(ctx context.Context, tenant uuid.UUID, before time.Time, limit int) ([]wire.QuestionInput, error)
	// FailAbandoned ends unfinished synchronous questions whose asker's deadline passed more than
	// grace ago, or that are older than after.
	FailAbandoned(ctx context.Context, grace, after time.Duration) (int64, error)

	// ClaimSampled claims some of the questions that have to be asked without retrieval, for the
	// duration of a lease.
	ClaimSampled(ctx context.Context, limit int, lease time.Duration) ([]wire.QuestionInput, error)
	Learn(ctx context.Context, in wire.QuestionInput, space string, vector []float32, right bool) error
	Forget(ctx context.Context, in wire.QuestionInput) error

	KeepSlowSearch(ctx context.Context, s answer.SlowSearch) error
	KeepSlowQuestion(ctx context.Context, tenant, question uuid.UUID, minTime time.Duration) error
	DropSlowQueries(ctx context.Context) error
}

// Encoder encodes questions, and passages together with them.
type Encoder interface {
	EncodeQuery(ctx context.Context, lane wire.Lane, question string, passages []string) (wire.Vectors, string, error)
}

// Jobs runs questions as jobs.
type Jobs struct {
	Store    Store
	Temporal client.Client
	NATS     *nats.Conn
	// Streams creates or updates the work streams, because NATS may have lost them.
	Streams func(ctx context.Context, js jetstream.JetStream) error
	// Cancels returns a context whose requests are also cancelled at their services when it ends
	// with a cause for which cause returns true.
	Cancels func(ctx context.Context, cause func(error) bool) context.Context
	// Answerer returns what runs a step. If job is not nil, the text of its answer is streamed
	// while it is generated.
	Answerer func(job *wire.QuestionInput) *answer.Answerer
	Models   Encoder
	Elector  lifecycle.Elector // for loops that only one of all processes runs
	Slow     *Slow

	Holder string        // this process's name in leases
	Lease  time.Duration // of a question
	Every  time.Duration // interval at which lost questions are looked for
	// Grace is how long after the asker's deadline the worker of a synchronous question may still
	// be ending it.
	Grace time.Duration
}

// Services returns the services that run beside the steps, in the order in which they start.
func (j *Jobs) Services() []lifecycle.Service {
	return []lifecycle.Service{j.canceller(), j.reconciler(), j.shadows(), j.forgetSlow(), j.intake()}
}

// Remote converts an error to one with the code that its caller acts on.
func Remote(err error) *schema.RemoteError {
	e, reason := schema.ToRemote(err), answer.ReasonOf(err)
	e.Code, e.Message = schema.Code(reason.Code), reason.Message
	return e
}
