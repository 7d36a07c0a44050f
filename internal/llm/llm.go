// Package llm is the gateway to language models: providers behind one small interface, and a ledger
// that stores every reply before the caller gets it. The gateway checks what a provider returns: a
// quote is a range of bytes of a passage that was sent, and an answer without a quote is no answer.
//
// The file of a provider has its name. anchor.go finds a model's quotes in the text that it was
// given.
package llm

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/sluice-rag/sluice/internal/text"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

const scope = "github.com/sluice-rag/sluice/internal/llm"

// Provider makes completions.
type Provider interface {
	Name() string
	// Complete answers a request whose task it knows. Errors are
	// *schema.RemoteError where the caller can do something about them.
	Complete(ctx context.Context, r wire.LLMRequest) (Completion, error)
}

// Completion is a provider's result for a request.
type Completion struct {
	Model     string
	Text      string // empty: the passages do not answer
	Quotes    []wire.Quote
	Sentences []wire.ReplySentence // of Text, if the provider knows what proves what
	Choice    int                  // one of the request's choices, from 1; 0: none
	Scores    []float64            // of each passage, if the task judges
	Readings  []wire.Reading       // of the passages, if the task reads
	Feedback  *wire.Feedback       // of an answer
	Correct   *bool                // of an answer, judged by reference answers
	// Rated says that the quotes' confidence is a calibrated probability. Features are the inputs
	// of its computation. Withheld says why the answer is not given at the request's risk; "": it
	// is given.
	Rated        bool
	Features     map[string]float64
	Withheld     string
	InputTokens  int
	OutputTokens int
}

// Call identifies a completion in the ledger.
type Call struct {
	ID          uuid.UUID // of its reservation
	Tenant      uuid.UUID
	Step        wire.Step
	Task        wire.LLMTask
	RequestHash [sha256.Size]byte // of the request
}

// Ledger stores the reply of every call.
type Ledger interface {
	// Once returns the reply stored under the call's tenant and step, with Repeated set. Without
	// one it runs complete, commits the reply, and returns it. Concurrent calls for the same step,
	// in any process, wait for that reply. It returns a conflict if the stored reply is to another
	// request.
	Once(ctx context.Context, call Call, complete func(context.Context) (wire.LLMReply, error)) (wire.LLMReply, error)
}

// Options are the parts of a gateway. Those that may be nil are optional.
type Options struct {
	Ledger    Ledger
	Providers []Provider // the first one answers by default
	// Fallback names the providers that answer, in this order, while the default one cannot. A
	// request that names its provider has no fallback.
	Fallback []string
	Prices   map[string]Price // by provider; one without a price costs nothing
	Deltas   Deltas           // may be nil
	Accounts Accounts         // may be nil
	Cache    Cache            // may be nil
	// BreakerPause is how long a provider that fails repeatedly is not called; 0: 15 s.
	BreakerPause time.Duration
	// MaxWait is how long a call waits at its tenant's limits; 0: 5 s.
	MaxWait time.Duration
}

// Gateway answers completion requests. It is safe for concurrent use.
type Gateway struct {
	ledger       Ledger
	deltas       Deltas
	accounts     Accounts
	cache        Cache
	maxWait      time.Duration
	tenantQueues tenantQueues
	providers    map[string]*pricedProvider
	chain        []*pricedProvider // for requests that name no provider
	tracer       trace.Tracer
	duration     metric.Float64Histogram
	tokens       metric.Int64Counter
	fallbacks    metric.Int64Counter
}

// NewGateway makes a gateway.
func NewGateway(o Options) (*Gateway, error) {
	if len(o.Providers) == 0 {
		return nil, errors.New("make a language model gateway: no provider")
	}
	if o.BreakerPause <= 0 {
		o.BreakerPause = openDuration
	}
	if o.MaxWait <= 0 {
		o.MaxWait = maxWait
	}
	g := &Gateway{ledger: o.Ledger, deltas: o.Deltas, accounts: o.Accounts, cache: o.Cache, maxWait: o.MaxWait,
		providers: map[string]*pricedProvider{}, tracer: otel.Tracer(scope)}
	meter := otel.Meter(scope)
	var breakers metric.Int64Gauge
	var problems [4]error
	g.duration, problems[0] = meter.Float64Histogram("sluice.llm.duration", metric.WithUnit("s"), metric.WithDescription("time that a completion took"))
	g.tokens, problems[1] = meter.Int64Counter("sluice.llm.tokens", metric.WithUnit("{token}"), metric.WithDescription("tokens sent and received"))
	g.fallbacks, problems[2] = meter.Int64Counter("sluice.llm.fallbacks", metric.WithUnit("{call}"), metric.WithDescription("completions that fell back to another provider"))
	breakers, problems[3] = meter.Int64Gauge("sluice.llm.breaker", metric.WithDescription("circuit breaker of a provider: 0 closed (asked), 1 half-open (on trial), 2 open (not asked)"))
	if err := errors.Join(problems[:]...); err != nil {
		return nil, fmt.Errorf("make language model metrics: %w", err)
	}
	for _, p := range o.Providers {
		g.providers[p.Name()] = newPricedProvider(p, o.Prices[p.Name()], o.BreakerPause, breakers)
	}
	for _, name := range append([]string{o.Providers[0].Name()}, o.Fallback...) {
		m, ok := g.providers[name]
		switch {
		case !ok:
			return nil, schema.Invalid("fallback", "there is no provider %q; the providers are: %s", name, g.names())
		case !slices.Contains(g.chain, m):
			g.chain = append(g.chain, m)
		}
	}
	return g, nil
}

func (g *Gateway) names() string { return strings.Join(slices.Sorted(maps.Keys(g.providers)), ", ") }

// Complete answers a request. A repeat under the same step gets the stored reply. Errors are
// returned in the reply. When ctx is cancelled the call to the model ends, what it used is counted,
// and no other provider is tried.
func (g *Gateway) Complete(ctx context.Context, r wire.LLMRequest) wire.LLMReply {
	if !r.Deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, r.Deadline)
		defer cancel()
	}
	reply, err := g.complete(wire.ForTenant(ctx, r.Tenant), r)
	switch {
	case err != nil && cancelled(ctx):
		slog.InfoContext(ctx, "a completion was cancelled", "tenant", r.Tenant, "question", r.Step.Question, "step", r.Step.Step, "cause", context.Cause(ctx))
		return Failure(&schema.RemoteError{Code: schema.CodeUnavailable, Message: "the completion was cancelled: " + context.Cause(ctx).Error()})
	case err != nil:
		slog.WarnContext(ctx, "a completion failed", "tenant", r.Tenant, "question", r.Step.Question, "step", r.Step.Step, "error", err)
		return Failure(remote(err))
	}
	return reply
}

// Failure is the reply that carries an error.
func Failure(e *schema.RemoteError) wire.LLMReply {
	return wire.LLMReply{Envelope: wire.Header(), Error: e}
}

func (g *Gateway) complete(ctx context.Context, r wire.LLMRequest) (wire.LLMReply, error) {
	chain, err := g.check(r)
	if err != nil {
		return wire.LLMReply{}, err
	}
	if r.Task == wire.TaskWho {
		return providerReply(chain[0].Provider), nil
	}
	out, err := g.deltasOf(r)
	if err != nil {
		return wire.LLMReply{}, err
	}
	reply, err := g.answerOnce(ctx, chain, r, out)
	if err == nil {
		out.end(reply.Text)
	}
	return reply, err
}

// providerReply returns a reply with a provider and its model. Sluice's own provider has no model
// name.
func providerReply(p Provider) wire.LLMReply {
	u := schema.Usage{Provider: p.Name()}
	if m, ok := p.(Remote); ok {
		u.Model = text.Clean(m.Model())
	}
	return wire.LLMReply{Envelope: wire.Header(), Usage: u}
}

// answerOnce answers a question's step once, through the ledger, and a search's step each time.
func (g *Gateway) answerOnce(ctx context.Context, chain []*pricedProvider, r wire.LLMRequest, out *deltas) (wire.LLMReply, error) {
	call := Call{ID: schema.NewID(), Tenant: r.Tenant, Step: r.Step, Task: r.Task}
	var err error
	if call.RequestHash, err = hash(chain[0].Name(), r); err != nil {
		return wire.LLMReply{}, err
	}
	var used spent
	p := &payer{g: g, tenant: r.Tenant, id: call.ID}
	answer := func(ctx context.Context) (wire.LLMReply, error) {
		return g.cached(ctx, chain[0], r, call.RequestHash, func(ctx context.Context) (wire.LLMReply, error) {
			return g.ask(ctx, chain, r, out, p, &used)
		})
	}
	var reply wire.LLMReply
	if r.Step.Question != uuid.Nil {
		reply, err = g.ledger.Once(ctx, call, answer)
	} else if reply, err = answer(ctx); err == nil && g.accounts != nil {
		if err := g.accounts.Record(context.WithoutCancel(ctx), call, reply); err != nil {
			g.warn(ctx, "cannot record the cost of a search's call", r.Tenant, err)
		}
	}
	if err != nil {
		p.settle(ctx, call, used)
	}
	return reply, err
}

func (g *Gateway) warn(ctx context.Context, what string, tenant uuid.UUID, err error) {
	slog.WarnContext(ctx, what, "tenant", tenant, "error", err)
}

// check validates a request and returns the providers that may answer it, in order.
func (g *Gateway) check(r wire.LLMRequest) ([]*pricedProvider, error) {
	chain := g.chain
	if r.Provider != "" {
		chain = []*pricedProvider{g.providers[r.Provider]}
	}
	if r.Trial || r.Task == wire.TaskCorrectness { // different models are not comparable
		chain = chain[:1]
	}
	if r.Prompt == PromptAsk && len(chain) > 1 { // extractive writes no questions, and its error would hide the first one's
		chain = append(chain[:1:1], slices.DeleteFunc(slices.Clone(chain[1:]), func(m *pricedProvider) bool { return m.Name() == extractiveName })...)
	}
	switch {
	case r.Task == wire.TaskWho && chain[0] != nil && r.Tenant != uuid.Nil:
		return chain, nil
	case r.Trial && (r.Step.Question != uuid.Nil || r.Task != wire.TaskAnswer && r.Task != wire.TaskBackground):
		return nil, schema.Invalid("trial", "is only for the tasks %s and %s, without a stored question", wire.TaskAnswer, wire.TaskBackground)
	case chain[0] == nil:
		return nil, schema.Invalid("provider", "there is no provider %q; the providers are: %s", r.Provider, g.names())
	case r.Tenant == uuid.Nil:
		return nil, schema.Invalid("tenant", "is missing")
	case r.Task != wire.TaskAnswer && r.Task != wire.TaskRewrite && r.Task != wire.TaskFeedback && r.Task != wire.TaskBackground && r.Task != wire.TaskRead && r.Task != wire.TaskCorrectness && !r.Task.Judges():
		return nil, schema.Invalid("task", "there is no task %q", r.Task)
	case r.Task == wire.TaskRead && r.Provider != extractiveName:
		return nil, schema.Invalid("provider", "%q cannot read passages: %s can", r.Provider, extractiveName)
	case r.Step.Step == "" || r.Step.Question == uuid.Nil && !r.Trial && (r.Task == wire.TaskAnswer || r.Task == wire.TaskBackground):
		return nil, schema.Invalid("step", "needs a question and a step, under which the reply is stored")
	case strings.TrimSpace(r.Question) == "":
		return nil, schema.Invalid("question", "is empty")
	case len(r.Choices) != 0 && (r.Task != wire.TaskAnswer || len(r.Choices) < schema.MinChoices || len(r.Choices) > schema.MaxChoices):
		return nil, schema.Invalid("choices", "there are %d: a question to choose from has %d to %d", len(r.Choices), schema.MinChoices, schema.MaxChoices)
	case r.Risk != nil && !(*r.Risk >= 0 && *r.Risk <= 1):
		return nil, schema.Invalid("risk", "%g is not a probability from 0 to 1", *r.Risk)
	case slices.ContainsFunc(r.Choices, func(s string) bool { return strings.TrimSpace(s) == "" }):
		return nil, schema.Invalid("choices", "one is empty")
	case len(r.Passages) == 0 && r.Task != wire.TaskRewrite && r.Task != wire.TaskBackground && r.Task != wire.TaskCorrectness:
		return nil, schema.Invalid("passages", "are missing")
	}
	return chain, checkJudged(r)
}

// hash identifies a request by its content, without the caller and the deadline. It leaves out
// headings: they follow from the passages, and older workers did not send them. A request that such
// a worker began is thus recognized.
func hash(provider string, r wire.LLMRequest) ([sha256.Size]byte, error) {
	passages := slices.Clone(r.Passages)
	for i := range passages {
		passages[i].Headings = nil
	}
	request, err := json.Marshal(struct {
		Provider string
		Task     wire.LLMTask
		Question string
		Passages []wire.LLMPassage
		Choices  []string `json:",omitempty"`
		Answer   string   `json:",omitempty"`
		Prompt   string   `json:",omitempty"`
		Risk     *float64 `json:",omitempty"`
		Sure     *float64 `json:",omitempty"`
		Right    []string `json:",omitempty"`
	}{provider, r.Task, r.Question, passages, r.Choices, r.Answer, r.Prompt, r.Risk, r.Confidence, r.References})
	if err != nil {
		return [sha256.Size]byte{}, fmt.Errorf("hash a completion request: %w", err)
	}
	return sha256.Sum256(request), nil
}

// checkTask validates and completes the reply of a task that does not answer.
func checkTask(p Provider, r wire.LLMRequest, c Completion, reply *wire.LLMReply) error {
	reply.Quotes = nil
	switch r.Task {
	case wire.TaskFeedback:
		return checkFeedback(p, c, reply)
	case wire.TaskBackground:
		checkBackground(reply)
		return nil
	case wire.TaskCorrectness:
		reply.Text, reply.Correct = "", c.Correct
		return nil
	case wire.TaskRead:
		reply.Text, reply.Readings = "", readable(c.Readings, r.Passages)
		return nil
	case wire.TaskRewrite:
		if reply.Text = strings.Join(strings.Fields(reply.Text), " "); reply.Text == "" {
			return fmt.Errorf("provider %s did not rewrite the question", p.Name())
		}
		return nil
	}
	reply.Text = ""
	if len(c.Scores) != len(r.Passages) {
		return fmt.Errorf("provider %s gave %d judgements of %d passages", p.Name(), len(c.Scores), len(r.Passages))
	}
	for i, x := range c.Scores {
		if !(x >= 0 && x <= 1) || r.Task == wire.TaskFilter && x != 0 && x != 1 {
			return fmt.Errorf("provider %s gave passage %d the invalid judgement %g", p.Name(), i+1, x)
		}
	}
	reply.Scores = c.Scores
	return nil
}

// readable returns the readings that are valid ranges of a passage with a finite score.
func readable(readings []wire.Reading, passages []wire.LLMPassage) []wire.Reading {
	return slices.DeleteFunc(slices.Clone(readings), func(x wire.Reading) bool {
		if x.Passage < 0 || x.Passage >= len(passages) || math.IsNaN(x.Score) || math.IsInf(x.Score, 0) {
			return true
		}
		body := passages[x.Passage].Text
		return x.Start < 0 || x.End > len(body) || x.Start >= x.End || !utf8.ValidString(body[x.Start:x.End])
	})
}

// proved returns the quotes that are valid ranges of a passage, each once. It drops a short answer
// that does not lie in its quote.
func proved(quotes []wire.Quote, passages []wire.LLMPassage) []wire.Quote {
	var out []wire.Quote
	for _, q := range quotes {
		if q.Passage < 0 || q.Passage >= len(passages) {
			continue
		}
		body := passages[q.Passage].Text
		if q.Start < 0 || q.End > len(body) || q.Start >= q.End || !utf8.ValidString(body[q.Start:q.End]) ||
			strings.TrimSpace(body[q.Start:q.End]) == "" || slices.ContainsFunc(out, func(o wire.Quote) bool {
			return o.Passage == q.Passage && o.Start == q.Start && o.End == q.End
		}) {
			continue
		}
		// This form of comparison refuses NaN. A confidence without an answer is that of the quote.
		if a := q.Answer; !(a.Confidence >= 0 && a.Confidence <= 1) || (a.Start != 0 || a.End != 0) &&
			(a.Start < q.Start || a.End > q.End || a.Start >= a.End || !utf8.ValidString(body[a.Start:a.End])) {
			q.Answer = wire.QuoteAnswer{}
		}
		out = append(out, q)
	}
	return out
}

// remote converts an error into one whose code tells callers whether to retry.
func remote(err error) *schema.RemoteError {
	e := schema.ToRemote(err)
	if errors.Is(err, context.DeadlineExceeded) && e.Code == schema.CodeInternal {
		e.Code = schema.CodeDeadline
	}
	return e
}
