//go:build cgo

package queryworker

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/bus"
	"github.com/sluice-rag/sluice/internal/question/answer"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/stores"
	"github.com/sluice-rag/sluice/plans"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

func (w *world) search(q wire.SearchQuery) wire.SearchReply {
	w.t.Helper()
	q.Principal = w.principal
	if q.Collection == uuid.Nil {
		q.Collection = w.collection
	}
	reply, err := bus.Request[wire.SearchReply](w.context(), w.nats, wire.SearchSubject, wire.SearchRequest{Envelope: wire.Header(), SearchQuery: q})
	w.ok(err)
	return reply
}

func TestSearchFindsAndExplains(t *testing.T) {
	w := newWorld(t)
	w.handbook()
	w.run(w.worker(nil).service())
	reply := w.search(wire.SearchQuery{Query: schema.Query{Text: carryOver, K: 3}})
	if reply.Error != nil || len(reply.Candidates) != 3 || reply.Plan != plans.Default {
		t.Fatalf("got %+v", reply)
	}
	best := reply.Candidates[0]
	if best.ExternalID != "leave.md" || best.Location != "Annual leave" || !strings.Contains(best.Text, "carry over") || best.Tokens == 0 || best.Scores["reranker"] != best.Score || best.Scores["score"] <= 0 || best.Scores["relevance"] == 0 || best.Scores["proximity"] <= 0 ||
		best.Scores["hybrid"] <= 0 || best.Scores["lexical.passage"] <= 0 || best.Scores["dense.passage"] <= 0 {
		t.Errorf("the best is %+v", best)
	}
	stored := scalar[string](w, `SELECT body FROM sections WHERE id = $1`, best.Spans[0].Section)
	if stored[best.Spans[0].Start:best.Spans[0].End] != best.Text {
		t.Error("the text is not its span's")
	}
	if first := reply.Trace[1]; first.Stage != "hybrid" || first.Out == 0 || first.Unit != schema.UnitPassage || !strings.Contains(first.Why, "hybrid") || first.Kept != nil {
		t.Errorf("the trace is %+v", reply.Trace)
	}
	if explained := w.search(wire.SearchQuery{Query: schema.Query{Text: carryOver, K: 3, Explain: true}}); explained.Trace[1].Kept[0].Document != "leave.md" || explained.Trace[1].Statistics != nil {
		t.Errorf("the explanation is %+v", explained.Trace)
	}
	if all := w.search(wire.SearchQuery{Query: schema.Query{Text: "What is the chair of the board paid?"}}); strings.Contains(all.Candidates[0].Text, "240,000") {
		t.Error("a labelled document was found without its group")
	}
	w.principal.Groups = []string{"board"}
	if all := w.search(wire.SearchQuery{Query: schema.Query{Text: "What is the chair of the board paid?"}}); !strings.Contains(all.Candidates[0].Text, "240,000") {
		t.Error("a labelled document was not found with its group")
	}
}

// TestManyCallersOfATenantAreAnswered uses the default settings.
func TestManyCallersOfATenantAreAnswered(t *testing.T) {
	w := newWorld(t)
	w.handbook()
	w.settings.QueryConcurrency, w.settings.Queue = 0, 0
	w.run(w.worker(nil).service())
	const callers = 32
	replies := make(chan wire.SearchReply, callers)
	for range callers {
		go func() {
			q := wire.SearchQuery{Principal: w.principal, Query: schema.Query{Collection: w.collection, Text: carryOver}}
			reply, err := bus.Request[wire.SearchReply](w.context(), w.nats, wire.SearchSubject, wire.SearchRequest{Envelope: wire.Header(), SearchQuery: q})
			if err != nil {
				reply.Error = schema.ToRemote(err)
			}
			replies <- reply
		}()
	}
	for range callers {
		if reply := <-replies; reply.Error != nil {
			t.Errorf("one of %d callers got %v", callers, reply.Error)
		}
	}
}

func TestSearchRefusesWhatIsWrong(t *testing.T) {
	w := newWorld(t)
	w.handbook()
	w.run(w.worker(nil).service())
	for _, c := range []struct {
		query wire.SearchQuery
		code  schema.Code
		field string
	}{
		{wire.SearchQuery{Query: schema.Query{Text: " "}}, schema.CodeInvalid, "text"},
		{wire.SearchQuery{Query: schema.Query{Text: strings.Repeat("x", 20_001)}}, schema.CodeInvalid, "text"},
		{wire.SearchQuery{Query: schema.Query{Text: "x", Plan: "clever"}}, schema.CodeInvalid, "plan"},
		{wire.SearchQuery{Query: schema.Query{Text: "x", K: 101}}, schema.CodeInvalid, "k"},
		{wire.SearchQuery{Query: schema.Query{Text: "x", Filter: schema.Filter{{Key: "k", Op: "~", Values: []string{"1"}}}}}, schema.CodeInvalid, "filter[0]"},
		{wire.SearchQuery{Query: schema.Query{Text: "leave", Filter: schema.Filter{{Key: "k", Op: "<", Values: []string{"1.5"}}}}}, schema.CodeInvalid, "filter[0]"},
		{wire.SearchQuery{Query: schema.Query{Text: "leave", Collection: uuid.New()}}, schema.CodeNotFound, ""},
	} {
		reply := w.search(c.query)
		if reply.Error == nil || reply.Error.Code != c.code || reply.Error.Field != c.field {
			t.Errorf("%+v gave %+v, want %s on %q", c.query, reply.Error, c.code, c.field)
		}
	}
	if reply := w.search(wire.SearchQuery{Query: schema.Query{Text: "zzqxv"}}); reply.Error != nil {
		t.Errorf("words that nobody knows gave %+v", reply.Error)
	}
}

// TestASearchIsBoundedByItsSetting: the timeout of a caller does not extend it.
func TestASearchIsBoundedByItsSetting(t *testing.T) {
	w := newWorld(t)
	w.handbook()
	w.settings.QueryTimeout = time.Nanosecond
	q := wire.SearchQuery{Principal: w.principal, Query: schema.Query{Collection: w.collection, Text: carryOver}}
	reply := w.worker(nil).search(w.context(), nil, wire.SearchRequest{Envelope: wire.Header(), SearchQuery: q, Deadline: time.Now().Add(time.Hour)})
	if reply.Error == nil || !strings.Contains(reply.Error.Message, "deadline exceeded") {
		t.Errorf("got %+v", reply)
	}
}

// TestASearchEndsWithItsStatements: a statement that takes too long counts as an unavailable part,
// for which the API returns status 503.
func TestASearchEndsWithItsStatements(t *testing.T) {
	w := newWorld(t)
	w.handbook()
	holding := w.store
	w.store = stores.Of(holding.In(store.Lane(100 * time.Millisecond)))
	w.run(w.worker(nil).service())
	w.ok(holding.AsTenant(w.context(), w.principal.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `LOCK TABLE documents IN ACCESS EXCLUSIVE MODE`); err != nil {
			return err
		}
		if reply := w.search(wire.SearchQuery{Query: schema.Query{Text: carryOver}}); reply.Error == nil || reply.Error.Code != schema.CodeUnavailable {
			t.Errorf("got %+v", reply.Error)
		}
		return nil
	}))
}

func (w *world) askSync(ctx context.Context, question string) (schema.Answer, *schema.RemoteError) {
	w.t.Helper()
	return w.requestAnswer(ctx, w.ask(ctx, question, false))
}

func (w *world) requestAnswer(ctx context.Context, in wire.QuestionInput) (schema.Answer, *schema.RemoteError) {
	w.t.Helper()
	reply, err := bus.Request[wire.AskReply](ctx, w.nats, wire.AskSubject, wire.AskRequest{Envelope: wire.Header(),
		SearchQuery: wire.SearchQuery{Principal: w.principal, Query: schema.Query{Collection: w.collection}}, Question: in.Question})
	w.ok(err)
	if reply.Error != nil {
		return schema.Answer{}, reply.Error
	}
	w.checkCitations(*reply.Answer)
	return *reply.Answer, nil
}

func TestAskAnswersWithVerbatimCitations(t *testing.T) {
	w := newWorld(t)
	w.handbook()
	w.startAll()
	for question, want := range map[string][2]string{
		carryOver: {"leave.md", "five days"},
		"To what torque are the head bolts of a KD-40 with a plastic head tightened?": {"pumps.md", "4.5 Nm"},
		"What is the daily allowance for meals?":                                      {"travel.md", "28 euros"},
	} {
		a, failure := w.askSync(w.context(), question)
		if failure != nil || !a.Supported || len(a.Citations) == 0 {
			t.Fatalf("%s: got %+v, %v", question, a, failure)
		}
		if a.Citations[0].Document != want[0] || !strings.Contains(a.Answer, want[1]) || a.Question != question || a.Plan != plans.Default {
			t.Errorf("%s: got %+v", question, a)
		}
		if a.Usage.Provider != "extractive" || a.Usage.InputTokens == 0 || a.Usage.OutputTokens == 0 {
			t.Errorf("%s: usage is %+v", question, a.Usage)
		}
		if n := len(a.Sentences); n == 0 || a.Sentences[0].Start != 0 || a.Sentences[n-1].End != len(a.Answer) || !a.Sentences[0].Supported || a.Sentences[0].Citations[0] != 0 {
			t.Errorf("%s: the sentences are %+v", question, a.Sentences)
		}
		if support := a.Trace[len(a.Trace)-1]; support.Stage != answer.StageSupport || support.Out != len(a.Sentences) {
			t.Errorf("%s: the last stage is %+v", question, support)
		}
		if last := a.Trace[len(a.Trace)-2]; last.Stage != "generate" || last.Out != len(a.Citations) || a.Trace[1].Kept[0].Document != want[0] {
			t.Errorf("%s: trace is %+v", question, a.Trace)
		}
	}
	a, failure := w.askSync(w.context(), "How do I bake a sourdough loaf with rye flour?")
	if failure != nil || a.Supported || a.Answer != schema.NoAnswer || len(a.Citations) != 0 {
		t.Errorf("what nothing fits gave %+v, %v", a, failure)
	}
}

// logged collects the log until the test ends.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// line returns the first line of the log that contains a message.
func (l *logged) line(message string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		if strings.Contains(line, message) {
			return line
		}
	}
	return ""
}

func TestAskThatFailsLeavesItsReason(t *testing.T) {
	var log logged
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)
	w := newWorld(t)
	w.handbook()
	w.run(w.worker(nil).service()) // no gateway answers
	ctx := w.context()
	_, failure := w.askSync(ctx, carryOver)
	if failure == nil || failure.Code != schema.CodeUnavailable || !strings.Contains(failure.Message, "sluice.llm.complete") {
		t.Fatalf("got %+v", failure)
	}
	if state := scalar[string](w, `SELECT state || ' ' || reason_code FROM questions`); state != "failed unavailable" {
		t.Errorf("the question is %q", state)
	}
	if line := log.line("a question failed"); !strings.Contains(line, "collection="+w.collection.String()) || !strings.Contains(line, "tenant="+w.principal.Tenant.String()) {
		t.Errorf("the log says %q, not of which collection", line)
	}
}

func TestAskedAgainGivesTheStoredAnswer(t *testing.T) {
	w := newWorld(t)
	w.handbook()
	paid := w.scriptedOpenAI("You may carry over up to five days of unused annual leave into the next year.")
	w.startAll()
	ctx := w.context()
	in := w.ask(ctx, carryOver, false)
	for range 2 {
		reply, err := bus.Request[wire.AskReply](ctx, w.nats, wire.AskSubject, wire.AskRequest{Envelope: wire.Header(), SearchQuery: wire.SearchQuery{Principal: w.principal}, Question: in.Question})
		w.ok(err)
		if reply.Error != nil || reply.Answer.Answer != "Five days." || reply.Answer.Usage.InputTokens != 11 {
			t.Fatalf("got %+v", reply)
		}
		w.checkCitations(*reply.Answer)
	}
	if n := paid.paid.Load(); n != 1 {
		t.Errorf("paid %d times", n)
	}
	reply, err := bus.Request[wire.AskReply](ctx, w.nats, wire.AskSubject, wire.AskRequest{Envelope: wire.Header(),
		SearchQuery: wire.SearchQuery{Principal: schema.Principal{Tenant: uuid.New()}}, Question: in.Question})
	if err != nil || reply.Error == nil || !errors.Is(reply.Error, schema.ErrNotFound) {
		t.Errorf("another tenant got %+v, %v", reply, err)
	}
}

// TestAskedTwiceAtOnce: both callers get the same answer, which is paid for once.
func TestAskedTwiceAtOnce(t *testing.T) {
	w := newWorld(t)
	w.handbook()
	paid := w.scriptedOpenAI("You may carry over up to five days of unused annual leave into the next year.")
	w.startAll()
	in := w.ask(w.context(), carryOver, false)
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			if a, failure := w.requestAnswer(w.context(), in); failure != nil || a.Answer != "Five days." {
				t.Errorf("got %+v, %+v", a, failure)
			}
		})
	}
	callers.Wait()
	if n := paid.paid.Load(); n != 1 {
		t.Errorf("paid %d times", n)
	}
}

// TestWhatWasDeletedMeanwhileIsNotCited: a document that is deleted during the answer is not cited
// or mentioned.
func TestWhatWasDeletedMeanwhileIsNotCited(t *testing.T) {
	w := newWorld(t)
	w.handbook()
	w.gateway()
	g := newGate()
	w.run(w.worker(func(p *parts) { p.generator = gatedGenerator{p.generator, g} }).service())
	in := w.ask(w.context(), carryOver, false)
	answered := make(chan schema.Answer, 1)
	go func() {
		a, _ := w.requestAnswer(w.context(), in)
		answered <- a
	}()
	<-g.reached
	w.ok(w.store.AsTenant(w.context(), in.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE documents SET deleted_at = now()`)
		return err
	}))
	close(g.open)
	if a := <-answered; a.Supported || a.Answer != schema.NoAnswer || len(a.Citations) != 0 {
		t.Errorf("got %+v", a)
	}
}
