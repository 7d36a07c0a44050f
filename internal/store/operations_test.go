package store_test

import (
	"slices"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/internal/question/answer"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/questions"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// TestActivityIsOfOneTenantOrOfAll: each tenant counts its own, the system counts both.
func TestActivityIsOfOneTenantOrOfAll(t *testing.T) {
	f := setUp(t, store.Options{})
	ready := f.upload(t, f.a, f.collection, text("ready.txt", "twelve bytes"))
	f.goLive(t, f.a, ready.Document, ready.Version)
	broken := f.upload(t, f.a, f.collection, text("broken.txt", "x"))
	f.fail(t, f.a, broken.Version)
	f.upload(t, f.a, f.collection, text("waits.txt", "waits"))
	old := f.upload(t, f.a, f.collection, text("old.txt", "old"))
	f.goLive(t, f.a, old.Document, old.Version)
	execAs(t, f, f.a, `UPDATE versions SET finished_at = now() - interval '2 hours' WHERE id = $1`, old.Version)
	theirs := f.upload(t, f.b, f.foreign, text("b.txt", "of b"))
	f.fail(t, f.b, theirs.Version)
	job, err := f.CreateQuestion(t.Context(), f.b, questions.NewQuestion{Query: schema.Query{Collection: f.foreign, Text: "Why?"}, Async: true})
	if err != nil {
		t.Fatal(err)
	}

	mine, err := f.Activity(t.Context(), f.a)
	if err != nil {
		t.Fatal(err)
	}
	if len(mine.Minutes) != 60 || mine.Minutes[59].At.Add(time.Minute).Before(mine.At) || !mine.Minutes[0].At.Add(59*time.Minute).Equal(mine.Minutes[59].At) {
		t.Errorf("minutes %+v at %v", mine.Minutes, mine.At)
	}
	if n := sum(mine.Minutes); n.Documents != 1 || n.Bytes != 12 || n.Failed != 1 {
		t.Errorf("ingested %+v, want one document of 12 bytes, and one that failed", n)
	}
	if mine.Waiting[schema.StateQueued] != 1 || mine.WaitingSince == nil || len(mine.Jobs) != 0 {
		t.Errorf("waiting %+v", mine)
	}
	if want := []schema.FailureCount{{What: "document", Code: "broken", Count: 1}}; !slices.Equal(mine.Failures, want) {
		t.Errorf("failures %+v, want %+v", mine.Failures, want)
	}

	if err := f.Fail(t.Context(), wire.QuestionInput{Tenant: f.b.Tenant, Question: job.ID, Attempt: 1}, schema.Reason{Code: "quota"}); err != nil {
		t.Fatal(err)
	}
	all, tenants, outbox, err := f.SystemActivity(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if n := sum(all.Minutes); n.Documents != 1 || n.Failed != 2 {
		t.Errorf("of all: %+v", n)
	}
	if want := []schema.FailureCount{{What: "document", Code: "broken", Count: 2}, {What: "question", Code: "quota", Count: 1}}; !slices.Equal(all.Failures, want) {
		t.Errorf("failures of all %+v, want %+v", all.Failures, want)
	}
	if len(tenants) != 2 || tenants[0] != (schema.TenantActivity{Tenant: f.a.Tenant, Name: "tenant-a", Waiting: 1, Documents: 1, Bytes: 12, Failed: 1}) ||
		tenants[1] != (schema.TenantActivity{Tenant: f.b.Tenant, Name: "tenant-b", Failed: 1}) {
		t.Errorf("tenants %+v", tenants)
	}
	if outbox.Messages == 0 || outbox.Oldest == nil {
		t.Errorf("outbox %+v: nothing publishes here", outbox)
	}
}

func sum(minutes []schema.IngestMinute) (n schema.IngestMinute) {
	for _, m := range minutes {
		n.Documents += m.Documents
		n.Bytes += m.Bytes
		n.Failed += m.Failed
	}
	return n
}

func TestSlowQueriesAreTheTenantsOwn(t *testing.T) {
	f := setUp(t, store.Options{})
	keep := func(p schema.Principal, question string, took time.Duration) {
		t.Helper()
		err := f.KeepSlowSearch(t.Context(), answer.SlowSearch{Query: wire.SearchQuery{Principal: p, Query: schema.Query{Collection: f.collection, Text: question}}, Plan: "sluice", Took: took,
			Stages: []schema.StageReport{{Stage: "dense", Millis: 900, Why: "not kept"}}, Trace: "abc"})
		if err != nil {
			t.Fatal(err)
		}
	}
	keep(f.a, "slow", time.Second)
	keep(f.a, "slowest", 3*time.Second)
	keep(f.b, "of b", 2*time.Second)
	asked, err := f.CreateQuestion(t.Context(), f.a, questions.NewQuestion{Query: schema.Query{Collection: f.collection, Text: "Asked?", Plan: "naive"}, Trace: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"})
	if err != nil {
		t.Fatal(err)
	}
	in := wire.QuestionInput{Tenant: f.a.Tenant, Question: asked.ID, Attempt: 1}
	if err := f.KeepSlowQuestion(t.Context(), in.Tenant, in.Question, 0); err != nil {
		t.Fatal(err)
	}
	if got, err := f.SlowQueries(t.Context(), f.a); err != nil || len(got) != 2 {
		t.Fatalf("%+v, %v: a question that has not ended took no time yet", got, err)
	}
	err = f.SaveAnswer(t.Context(), in, schema.Answer{Answer: "So.", Trace: []schema.StageReport{{Stage: "hybrid", Millis: 5, Why: "text"}, {Stage: "generate", Millis: 7}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, least := range []time.Duration{time.Hour, 0, 0} { // repeating adds no other one
		if err := f.KeepSlowQuestion(t.Context(), in.Tenant, in.Question, least); err != nil {
			t.Fatal(err)
		}
	}

	got, err := f.SlowQueries(t.Context(), f.a)
	if err != nil || len(got) != 3 {
		t.Fatalf("%+v, %v", got, err)
	}
	first, last := got[0], got[2]
	if first.Question != "slowest" || first.Kind != schema.SlowSearch || first.Millis != 3000 || first.Collection != f.collection || first.Trace != "abc" ||
		!slices.Equal(first.Stages, []schema.StageTime{{Stage: "dense", Millis: 900}}) {
		t.Errorf("the slowest is %+v", first)
	}
	if last.ID != asked.ID || last.Kind != schema.SlowAsk || last.Plan != "naive" || last.Trace != "0af7651916cd43dd8448eb211c80319c" ||
		!slices.Equal(last.Stages, []schema.StageTime{{Stage: "hybrid", Millis: 5}, {Stage: "generate", Millis: 7}}) {
		t.Errorf("the question is %+v", last)
	}
	of, err := f.SystemSlowQueries(t.Context())
	if err != nil || len(of) != 4 {
		t.Fatalf("%+v, %v", of, err)
	}
	for _, q := range of {
		if q.Question != "" || q.Tenant != f.a.Tenant && q.Tenant != f.b.Tenant {
			t.Errorf("operators see %+v", q)
		}
	}
}

func TestSlowQueriesAreBoundedAndForgotten(t *testing.T) {
	f := setUp(t, store.Options{})
	execAs(t, f, f.a, `INSERT INTO slow_queries (tenant_id, id, kind, collection_id, question, plan, millis, stages, at)
SELECT $1, gen_random_uuid(), kind, $2, 'q', 'p', n, '[]', now() - n * interval '1 minute' FROM generate_series(1, 300) n, unnest('{search,ask}'::text[]) kind`,
		f.a.Tenant, f.collection)
	count := func() int { return one[int](t, f, f.a, `SELECT count(*) FROM slow_queries`) }
	err := f.KeepSlowSearch(t.Context(), answer.SlowSearch{Query: wire.SearchQuery{Principal: f.a, Query: schema.Query{Text: "one more"}}, Took: time.Second})
	if err != nil || count() != 400 {
		t.Errorf("%d are kept, want 200 of each kind (%v)", count(), err)
	}
	if one[int](t, f, f.a, `SELECT count(*) FROM slow_queries WHERE question = 'one more'`) != 1 {
		t.Error("the newest is not kept")
	}
	shown, err := f.SlowQueries(t.Context(), f.a)
	if err != nil || len(shown) != 20 {
		t.Errorf("%d are shown, want 10 of each kind (%v)", len(shown), err)
	}
	execAs(t, f, f.b, `INSERT INTO slow_queries (tenant_id, id, kind, collection_id, question, plan, millis, stages, at)
VALUES ($1, gen_random_uuid(), 'search', $2, 'q', 'p', 1, '[]', now() - interval '8 days')`, f.b.Tenant, f.foreign)
	if err := f.DropSlowQueries(t.Context()); err != nil || count() != 400 || one[int](t, f, f.b, `SELECT count(*) FROM slow_queries`) != 0 {
		t.Errorf("%d are left beside 400 newer ones, want none (%v)", count()-400, err)
	}
}
