// Package question answers questions that run as jobs: it takes them from their queue and starts
// their workflows (intake.go), runs the steps (steps.go), finds those that were lost
// (reconcile.go), and learns afterwards what the language model knew by itself (shadow.go). It also
// keeps what was slow (slow.go). How a question is answered is package answer.
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

// Longest is how long a question that somebody waits for may take, whatever its deadline is.
const Longest = time.Hour

// Grace is how long after its asker's time the worker of such a question may still be ending it.
const Grace = 15 * time.Second

// Store keeps the questions of all tenants.
type Store interface {
	Question(ctx context.Context, in wire.QuestionInput) (answer.Question, error)
	Cancel(ctx context.Context, in wire.QuestionInput) error

	// ClaimQuestion takes a question, or keeps it; false: it needs no work, or is another's.
	ClaimQuestion(ctx context.Context, in wire.QuestionInput, holder string, lease time.Duration) (bool, error)
	// ExpiredQuestions are some whose lease is over.
	ExpiredQuestions(ctx context.Context, most int) ([]wire.QuestionInput, error)
	// RequeueQuestion queues a question under its next attempt, unless it has ended or is at
	// another one.
	RequeueQuestion(ctx context.Context, in wire.QuestionInput) (bool, error)
	// WaitingTenants have questions that were published before then and that nobody has claimed.
	WaitingTenants(ctx context.Context, before time.Time) ([]uuid.UUID, error)
	StrandedQuestions(ctx context.Context, tenant uuid.UUID, before time.Time, most int) ([]wire.QuestionInput, error)
	// FailAbandoned ends questions that somebody waited for and nobody works on.
	FailAbandoned(ctx context.Context, grace, after time.Duration) (int64, error)

	// ClaimSampled takes some of the questions that are to be asked without retrieval, for a while.
	ClaimSampled(ctx context.Context, most int, lease time.Duration) ([]wire.QuestionInput, error)
	Learn(ctx context.Context, in wire.QuestionInput, space string, vector []float32, right bool) error
	Forget(ctx context.Context, in wire.QuestionInput) error

	KeepSlowSearch(ctx context.Context, s answer.SlowSearch) error
	KeepSlowQuestion(ctx context.Context, tenant, question uuid.UUID, least time.Duration) error
	DropSlowQueries(ctx context.Context) error
}

// Encoder makes vectors of questions, and of passages with them.
type Encoder interface {
	EncodeQuery(ctx context.Context, lane wire.Lane, question string, passages []string) (wire.Vectors, string, error)
}

// Jobs runs questions as jobs.
type Jobs struct {
	Store    Store
	Temporal client.Client
	NATS     *nats.Conn
	// Streams makes the streams of work as they should be: NATS may have lost them.
	Streams func(ctx context.Context, js jetstream.JetStream) error
	// Cancels returns a context whose requests are given up at their services, too, when it ends
	// for such a cause.
	Cancels func(ctx context.Context, cause func(error) bool) context.Context
	// Answerer makes what runs a step. job, unless it is nil, is whose answer's text is told while
	// it is made.
	Answerer func(job *wire.QuestionInput) *answer.Answerer
	Models   Encoder
	Elector  lifecycle.Elector // of what one process of all does
	Slow     *Slow

	Holder string        // of leases
	Lease  time.Duration // of a question
	Every  time.Duration // how often it looks for lost questions
	// Grace is how long after its asker's time the worker of a question may still be ending it.
	Grace time.Duration
}

// Services are what runs beside the steps, in the order in which they start.
func (j *Jobs) Services() []lifecycle.Service {
	return []lifecycle.Service{j.canceller(), j.reconciler(), j.shadows(), j.forgetSlow(), j.intake()}
}

// Remote gives an error the code that its caller acts on.
func Remote(err error) *schema.RemoteError {
	e, reason := schema.ToRemote(err), answer.ReasonOf(err)
	e.Code, e.Message = schema.Code(reason.Code), reason.Message
	return e
}
