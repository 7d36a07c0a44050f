package store_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/llm"
	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/internal/question/answer"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/questions"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

func (f *fixture) question(t *testing.T, p schema.Principal, async bool) (schema.Job, wire.QuestionInput) {
	t.Helper()
	j, err := f.CreateQuestion(t.Context(), p, questions.NewQuestion{
		Query: schema.Query{Collection: f.collection, Text: "How long?", Plan: "naive", K: 7, Filter: schema.Filter{{Key: "year", Op: schema.OpEq, Values: []string{"2024"}}}},
		Async: async,
		Trace: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
	})
	if err != nil {
		t.Fatal(err)
	}
	return j, wire.QuestionInput{Tenant: p.Tenant, Question: j.ID, Attempt: 1}
}

// messages returns the outbox's messages for a subject, oldest first.
func messages[M any](t *testing.T, f *fixture, subject string) []M {
	t.Helper()
	var out []M
	err := f.AsSystem(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `SELECT payload::text FROM outbox WHERE subject = $1 ORDER BY id`, subject)
		if err != nil {
			return err
		}
		bodies, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return err
		}
		out = make([]M, len(bodies))
		for i, b := range bodies {
			if err := json.Unmarshal([]byte(b), &out[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestAQuestionKeepsItsAsker(t *testing.T) {
	f := setUp(t, store.Options{})
	asker := f.a
	asker.Groups = []string{"legal"}
	_, in := f.question(t, asker, true)
	q, err := f.Question(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	if q.Query.Principal.Key != asker.Key || fmt.Sprint(q.Query.Principal.Groups) != "[legal]" || q.Query.Principal.Tenant != asker.Tenant {
		t.Errorf("the asker came back as %+v", q.Query.Principal)
	}
	if q.Query.Text != "How long?" || q.Query.K != 7 || q.Query.Filter[0].Values[0] != "2024" || q.Query.Plan != "naive" || !q.Async || q.State != schema.JobQueued {
		t.Errorf("the question came back as %+v", q)
	}
	queued := messages[wire.QuestionMessage](t, f, wire.QuestionsSubject(f.a.Tenant))
	if len(queued) != 1 || queued[0].Question != in.Question || queued[0].Attempt != 1 || queued[0].Trace == "" {
		t.Errorf("queued %+v", queued)
	}
	if e := messages[wire.QuestionEvent](t, f, wire.EventSubject(f.a.Tenant, wire.EventQuestionQueued)); len(e) != 1 || e[0].Question != in.Question {
		t.Errorf("events %+v", e)
	}
}

func TestASynchronousQuestionIsNotQueued(t *testing.T) {
	f := setUp(t, store.Options{})
	f.question(t, f.a, false)
	if n := len(messages[wire.QuestionMessage](t, f, wire.QuestionsSubject(f.a.Tenant))); n != 0 {
		t.Errorf("%d messages", n)
	}
	if jobs, _, err := f.ListJobs(t.Context(), f.a, schema.PageQuery{}); err != nil || len(jobs) != 0 {
		t.Errorf("it is listed as a job: %v, %v", jobs, err)
	}
}

func TestCreateQuestionRefusesWhatIsWrong(t *testing.T) {
	f := setUp(t, store.Options{})
	for _, c := range []struct {
		q    questions.NewQuestion
		want error
	}{
		{questions.NewQuestion{Query: schema.Query{Collection: f.foreign, Text: "x"}}, schema.ErrNotFound},
		{questions.NewQuestion{Query: schema.Query{Collection: uuid.New(), Text: "x"}}, schema.ErrNotFound},
		{questions.NewQuestion{Query: schema.Query{Collection: f.collection}}, schema.ErrInvalid},
		{questions.NewQuestion{Query: schema.Query{Collection: f.collection, Text: "a\x00b"}}, schema.ErrInvalid},
		{questions.NewQuestion{Query: schema.Query{Collection: f.collection, Text: "x", K: -1}}, schema.ErrInvalid},
		{questions.NewQuestion{Query: schema.Query{Collection: f.collection, Text: strings.Repeat("é", schema.MaxQuestion+1)}}, schema.ErrInvalid},
		{questions.NewQuestion{Query: schema.Query{Collection: f.collection, Text: "x", Filter: schema.Filter{{Key: "k", Op: "~"}}}}, schema.ErrInvalid},
	} {
		if _, err := f.CreateQuestion(t.Context(), f.a, c.q); !errors.Is(err, c.want) {
			t.Errorf("%+v gave %v, want %v", c.q, err, c.want)
		}
	}
}

func TestAQuestionHasAsManyCharactersAsSearchesTake(t *testing.T) {
	f := setUp(t, store.Options{})
	long := strings.Repeat("é", schema.MaxQuestion)
	if _, err := f.CreateQuestion(t.Context(), f.a, questions.NewQuestion{Query: schema.Query{Collection: f.collection, Text: long}}); err != nil {
		t.Error(err)
	}
}

func TestJobsAreTheirAskersAlone(t *testing.T) {
	f := setUp(t, store.Options{})
	asker, other := f.a, f.a
	asker.Key, asker.Scopes = schema.NewID(), []schema.Scope{schema.ScopeQuery}
	other.Key, other.Scopes = schema.NewID(), []schema.Scope{schema.ScopeQuery}
	var made []schema.Job
	for range 5 {
		j, _ := f.question(t, asker, true)
		made = append(made, j)
	}
	for _, c := range []struct {
		name string
		p    schema.Principal
		sees bool
	}{{"the asker", asker, true}, {"an admin", f.a, true}, {"another key", other, false}, {"another tenant's admin", f.b, false}} {
		jobs, _, err := f.ListJobs(t.Context(), c.p, schema.PageQuery{})
		if err != nil || len(jobs) == 5 != c.sees || len(jobs) == 0 == c.sees {
			t.Errorf("%s sees %d jobs, %v", c.name, len(jobs), err)
		}
		if _, err := f.Job(t.Context(), c.p, made[0].ID); errors.Is(err, schema.ErrNotFound) == c.sees || err != nil == c.sees {
			t.Errorf("%s: job gave %v", c.name, err)
		}
		if !c.sees {
			if _, err := f.CancelJob(t.Context(), c.p, made[0].ID); !errors.Is(err, schema.ErrNotFound) {
				t.Errorf("%s: cancel gave %v", c.name, err)
			}
		}
	}
	var seen []uuid.UUID
	for cursor, page := "", 0; ; page++ {
		jobs, next, err := f.ListJobs(t.Context(), asker, schema.PageQuery{Limit: 2, Cursor: cursor})
		if err != nil || page > 3 {
			t.Fatal(page, err)
		}
		for _, j := range jobs {
			seen = append(seen, j.ID)
		}
		if cursor = next; next == "" {
			break
		}
	}
	for i, id := range seen {
		if want := made[len(made)-1-i].ID; id != want {
			t.Errorf("entry %d is %s, want %s: newest first", i, id, want)
		}
	}
	if len(seen) != 5 {
		t.Errorf("paging saw %d jobs", len(seen))
	}
}

func TestTheStepsOfAQuestion(t *testing.T) {
	f := setUp(t, store.Options{})
	q := f.QuestionStore
	source := f.upload(t, f.a, f.collection, text("d.md", "A long text."))
	_, in := f.question(t, f.a, true)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	claimed, err := f.ClaimQuestion(t.Context(), in, "me", time.Minute)
	if err != nil || !claimed {
		t.Fatal(claimed, err)
	}
	_, err = q.Begin(t.Context(), in)
	must(err)
	must(q.SetStage(t.Context(), in, answer.StepRetrieve))
	first := answer.Retrieval{Candidates: []schema.Candidate{{Passage: uuid.New(), Text: "first",
		Spans: []schema.Span{{Version: source.Version, Section: uuid.New(), End: 5}}}}, Trace: []schema.StageReport{{Stage: "dense", Out: 1}}}
	_, err = q.SaveRetrieval(t.Context(), in, 1, first)
	must(err)
	kept, err := q.SaveRetrieval(t.Context(), in, 1, answer.Retrieval{})
	if err != nil || len(kept.Candidates) != 1 || kept.Candidates[0].Text != "first" || kept.Trace[0].Stage != "dense" {
		t.Errorf("a repeated retrieval kept %+v, %v", kept, err)
	}
	if j, err := f.Job(t.Context(), f.a, in.Question); err != nil || j.State != schema.JobRunning || j.Stage != answer.StepRetrieve {
		t.Errorf("progress is %+v, %v", j, err)
	}
	stale := in
	stale.Attempt = 2
	for name, write := range map[string]func() error{
		"begin":  func() error { _, err := q.Begin(t.Context(), stale); return err },
		"stage":  func() error { return q.SetStage(t.Context(), stale, "x") },
		"answer": func() error { return q.SaveAnswer(t.Context(), stale, schema.Answer{}) },
		"fail":   func() error { return q.Fail(t.Context(), stale, schema.Reason{Code: "x"}) },
	} {
		if err := write(); !errors.Is(err, schema.ErrLostLease) {
			t.Errorf("%s of another attempt gave %v, want ErrLostLease", name, err)
		}
	}
	want := schema.Answer{ID: in.Question, Question: "How long?", Answer: "Long.", Supported: true, Plan: "naive", Trace: first.Trace,
		Usage: schema.Usage{Provider: "p", InputTokens: 3}, Citations: []schema.Citation{{Document: "d.md", DocumentID: uuid.New(), Title: "T", Location: "A > B",
			Quote: "Long.", Span: schema.Span{Version: source.Version, Section: uuid.New(), Start: 2, End: 7}},
			{Document: "e.md", DocumentID: uuid.New(), Quote: "Zwölf Jahre.", Span: schema.Span{Version: source.Version, Section: uuid.New(), Start: 2, End: 15},
				Answer: schema.ShortAnswer{Text: "Zwölf", End: 6, Confidence: 0.8125}}}}
	must(q.SaveAnswer(t.Context(), in, want))
	if err := q.SaveAnswer(t.Context(), in, want); !errors.Is(err, schema.ErrLostLease) {
		t.Errorf("a second answer gave %v", err)
	}
	j, err := f.Job(t.Context(), f.a, in.Question)
	must(err)
	got, _ := json.Marshal(j.Result)
	expected, _ := json.Marshal(want)
	if string(got) != string(expected) || j.State != schema.JobAnswered || j.FinishedAt == nil {
		t.Errorf("got job %+v with %s\nwant %s", j, got, expected)
	}
	if n := one[int](t, f, f.a, `SELECT count(*) FROM leases`); n != 0 {
		t.Error("the lease was not given back")
	}
	if e := messages[wire.QuestionEvent](t, f, wire.EventSubject(f.a.Tenant, wire.EventQuestionAnswered)); len(e) != 1 {
		t.Errorf("events %+v", e)
	}
	if _, err := f.CancelJob(t.Context(), f.a, in.Question); !errors.Is(err, schema.ErrConflict) {
		t.Errorf("cancelling an answered job gave %v, want ErrConflict", err)
	}
}

func TestCancelIsOnceAndFinal(t *testing.T) {
	f := setUp(t, store.Options{})
	_, in := f.question(t, f.a, true)
	for range 2 {
		if j, err := f.CancelJob(t.Context(), f.a, in.Question); err != nil || j.State != schema.JobCancelled {
			t.Fatalf("got %+v, %v", j, err)
		}
	}
	if e := messages[wire.QuestionEvent](t, f, wire.EventSubject(f.a.Tenant, wire.EventQuestionCancelled)); len(e) != 1 || e[0].Attempt != 1 {
		t.Errorf("events %+v", e)
	}
	if _, err := f.Begin(t.Context(), in); !errors.Is(err, schema.ErrLostLease) {
		t.Errorf("a cancelled question began: %v", err)
	}
	if claimed, err := f.ClaimQuestion(t.Context(), in, "me", time.Minute); claimed || err != nil {
		t.Errorf("a cancelled question was claimed: %v", err)
	}
}

func TestLostQuestionsAreQueuedAgainUntilTheyFail(t *testing.T) {
	f := setUp(t, store.Options{})
	_, in := f.question(t, f.a, true)
	for attempt := 1; attempt <= 5; attempt++ {
		in.Attempt = attempt
		if claimed, err := f.ClaimQuestion(t.Context(), in, "dead", time.Hour); err != nil || !claimed {
			t.Fatal(attempt, claimed, err)
		}
		if moved, err := f.RequeueQuestion(t.Context(), in); moved || err != nil {
			t.Fatalf("a held question was queued again: %v", err)
		}
		execAs(t, f, f.a, `UPDATE leases SET expires_at = now() - interval '1 second'`)
		expired, err := f.ExpiredQuestions(t.Context(), 10)
		if err != nil || len(expired) != 1 || expired[0] != in {
			t.Fatalf("expired: %v, %v", expired, err)
		}
		if moved, err := f.RequeueQuestion(t.Context(), in); !moved || err != nil {
			t.Fatalf("not moved: %v", err)
		}
	}
	j, err := f.Job(t.Context(), f.a, in.Question)
	if err != nil || j.State != schema.JobFailed || j.Reason == nil || j.Reason.Message == "" {
		t.Errorf("got %+v, %v, want failed with a reason", j, err)
	}
	if m := messages[wire.QuestionMessage](t, f, wire.QuestionsSubject(f.a.Tenant)); len(m) != 5 || m[4].Attempt != 5 {
		t.Errorf("queued %d times", len(m))
	}
}

func TestStrandedQuestionsAreFound(t *testing.T) {
	f := setUp(t, store.Options{})
	_, in := f.question(t, f.a, true)
	future := time.Now().Add(time.Hour)
	if s, err := f.StrandedQuestions(t.Context(), f.a.Tenant, future, 10); err != nil || len(s) != 0 {
		t.Errorf("one that waits in the outbox is stranded: %v, %v", s, err)
	}
	if err := f.AsSystem(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `DELETE FROM outbox`)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if w, err := f.WaitingTenants(t.Context(), future); err != nil || len(w) != 1 || w[0] != f.a.Tenant {
		t.Errorf("waiting: %v, %v", w, err)
	}
	if s, err := f.StrandedQuestions(t.Context(), f.a.Tenant, future, 10); err != nil || len(s) != 1 || s[0] != in {
		t.Errorf("stranded: %v, %v", s, err)
	}
	if s, err := f.StrandedQuestions(t.Context(), f.a.Tenant, time.Now().Add(-time.Hour), 10); err != nil || len(s) != 0 {
		t.Errorf("a fresh one is stranded: %v, %v", s, err)
	}
}

func TestAbandonedQuestionsEndWithAReason(t *testing.T) {
	f := setUp(t, store.Options{})
	_, in := f.question(t, f.a, false)
	if n, err := f.FailAbandoned(t.Context(), 0, time.Hour); n != 0 || err != nil {
		t.Fatal(n, err)
	}
	if n, err := f.FailAbandoned(t.Context(), 0, 0); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if q, err := f.Question(t.Context(), in); err != nil || q.State != schema.JobFailed {
		t.Errorf("got %+v, %v", q, err)
	}
	if e := messages[wire.QuestionEvent](t, f, wire.EventSubject(f.a.Tenant, wire.EventQuestionFailed)); len(e) != 1 || e[0].Question != in.Question || e[0].Reason == nil || e[0].Collection != f.collection {
		t.Errorf("events %+v", e)
	}
}

// TestQuestionsEndWithTheirAskersTime: neither the process that should answer them nor the asker
// exists any more.
func TestQuestionsEndWithTheirAskersTime(t *testing.T) {
	f := setUp(t, store.Options{})
	now, until := questions.NewQuestion{Query: schema.Query{Collection: f.collection, Text: "q", Plan: "p"}}, map[string]time.Time{"over": time.Now(), "not over": time.Now().Add(time.Hour)}
	ids := map[string]wire.QuestionInput{}
	for name, at := range until {
		now.Until = at
		j, err := f.CreateQuestion(t.Context(), f.a, now)
		if err != nil {
			t.Fatal(err)
		}
		ids[name] = wire.QuestionInput{Tenant: f.a.Tenant, Question: j.ID, Attempt: 1}
		if _, err := f.Begin(t.Context(), ids[name]); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := f.FailAbandoned(t.Context(), time.Minute, time.Hour); n != 0 || err != nil {
		t.Errorf("%d ended in their grace, %v", n, err)
	}
	if n, err := f.FailAbandoned(t.Context(), 0, time.Hour); n != 1 || err != nil {
		t.Errorf("%d ended, %v", n, err)
	}
	for name, want := range map[string]schema.JobState{"over": schema.JobFailed, "not over": schema.JobRunning} {
		if q, err := f.Question(t.Context(), ids[name]); err != nil || q.State != want {
			t.Errorf("one whose time is %s is %s, %v", name, q.State, err)
		}
	}
}

// TestBeginningAQuestionIsAnEventOnce: also if its worker begins it again.
func TestBeginningAQuestionIsAnEventOnce(t *testing.T) {
	f := setUp(t, store.Options{})
	_, in := f.question(t, f.a, true)
	for range 2 {
		if q, err := f.Begin(t.Context(), in); err != nil || q.State != schema.JobRunning {
			t.Fatalf("got %+v, %v", q, err)
		}
	}
	if e := messages[wire.QuestionEvent](t, f, wire.EventSubject(f.a.Tenant, wire.EventQuestionRunning)); len(e) != 1 || e[0].Question != in.Question || e[0].State != schema.JobRunning || e[0].Attempt != 1 {
		t.Errorf("events %+v", e)
	}
}

func call(f *fixture, in wire.QuestionInput) llm.Call {
	return llm.Call{ID: schema.NewID(), Tenant: f.a.Tenant, Step: wire.Step{Question: in.Question, Round: 1, Step: "answer"}, Task: wire.TaskAnswer, RequestHash: [32]byte{1}}
}

// localAdmin returns the administrator's URL of the fixture's database.
func localAdmin(t *testing.T, f *fixture) string {
	t.Helper()
	config, err := pgx.ParseConfig(f.url)
	if err != nil {
		t.Fatal(err)
	}
	return localtest.Postgres(t).AdminURL(config.Database)
}

func TestTheLedgerPaysOnce(t *testing.T) {
	f := setUp(t, store.Options{MaxConns: 16})
	_, in := f.question(t, f.a, true)
	var paid atomic.Int32
	var callers sync.WaitGroup
	var repeated atomic.Int32
	for range 10 {
		callers.Go(func() {
			reply, err := f.LedgerStore.Once(t.Context(), call(f, in), func(context.Context) (wire.LLMReply, error) {
				paid.Add(1)
				return wire.LLMReply{Envelope: wire.Header(), Text: "five", Supported: true, Usage: schema.Usage{Provider: "p", Model: "m", InputTokens: 4}}, nil
			})
			if err != nil || reply.Text != "five" || !reply.Supported {
				t.Errorf("got %+v, %v", reply, err)
			}
			if reply.Repeated {
				repeated.Add(1)
			}
		})
	}
	callers.Wait()
	if paid.Load() != 1 || repeated.Load() != 9 {
		t.Errorf("paid %d times, repeated %d times", paid.Load(), repeated.Load())
	}
	if n := one[int](t, f, f.a, `SELECT input_tokens FROM llm_calls`); n != 4 {
		t.Errorf("the row has %d input tokens", n)
	}
	other := call(f, in)
	other.RequestHash[0] = 2
	if _, err := f.LedgerStore.Once(t.Context(), other, nil); !errors.Is(err, schema.ErrConflict) {
		t.Errorf("another request under the step gave %v, want ErrConflict", err)
	}
	if reply, err := f.Reply(t.Context(), f.a.Tenant, call(f, in).Step); err != nil || reply.Text != "five" {
		t.Errorf("stored %+v, %v", reply, err)
	}
}

func TestAFailedCallLeavesNothingAndMayBeRepeated(t *testing.T) {
	f := setUp(t, store.Options{})
	_, in := f.question(t, f.a, true)
	down := errors.New("down")
	if _, err := f.LedgerStore.Once(t.Context(), call(f, in), func(context.Context) (wire.LLMReply, error) { return wire.LLMReply{}, down }); !errors.Is(err, down) {
		t.Errorf("got %v", err)
	}
	if _, err := f.Reply(t.Context(), f.a.Tenant, call(f, in).Step); !errors.Is(err, schema.ErrNotFound) {
		t.Errorf("got %v, want ErrNotFound", err)
	}
	if reply, err := f.LedgerStore.Once(t.Context(), call(f, in), func(context.Context) (wire.LLMReply, error) { return wire.LLMReply{Text: "up"}, nil }); err != nil || reply.Text != "up" {
		t.Errorf("got %+v, %v", reply, err)
	}
}

// TestAPaidReplyIsStoredThoughItsCallerLeft: a paid reply is stored although its caller left or the
// connection broke.
func TestAPaidReplyIsStoredThoughItsCallerLeft(t *testing.T) {
	f := setUp(t, store.Options{})
	_, in := f.question(t, f.a, true)
	ctx, cancel := context.WithCancel(t.Context())
	paid := 0
	_, err := f.LedgerStore.Once(ctx, call(f, in), func(context.Context) (wire.LLMReply, error) {
		paid++
		cancel()
		return wire.LLMReply{Text: "kept"}, nil
	})
	if err != nil {
		t.Error(err)
	}
	_, in = f.question(t, f.a, true)
	reply, err := f.LedgerStore.Once(t.Context(), call(f, in), func(context.Context) (wire.LLMReply, error) {
		paid++
		if paid == 2 { // the store's own connection breaks while the provider works
			execute(t, localAdmin(t, f), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`)
		}
		return wire.LLMReply{Text: "kept too"}, nil
	})
	if err != nil || reply.Text != "kept too" || paid != 2 {
		t.Errorf("got %+v, %v after %d calls", reply, err, paid)
	}
}
