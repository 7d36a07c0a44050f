package store_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/ledger"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

var keep = ledger.Retention{Calls: 90, SearchCalls: 30, Days: 62}

// called makes a call of a question and one of a search that are days old, and the sums of that
// day.
func (f *fixture) called(t *testing.T, p schema.Principal, question uuid.UUID, days int) {
	t.Helper()
	for _, sql := range []string{
		`INSERT INTO llm_calls (tenant_id, question_id, round, step, item, task, provider, model, input_tokens, output_tokens, millis, request_hash, reply, created_at)
		 VALUES ($1, $2, 1, 'answer', $3, 'answer', 'p', 'm', 1, 1, 1, '\x01', '{}', now() - make_interval(days => $3))`,
		`INSERT INTO llm_search_calls (tenant_id, id, step, task, provider, model, input_tokens, output_tokens, nanos, cached, millis, created_at)
		 SELECT $1, gen_random_uuid(), 'stage', 'rewrite', 'p', 'm', 1, 1, 1, false, 1, now() - make_interval(days => $3) WHERE $2::uuid IS NOT NULL`,
		`INSERT INTO llm_days (tenant_id, day, calls, input_tokens, output_tokens, nanos)
		 SELECT $1, (now() AT TIME ZONE 'UTC')::date - $3::int, 1, 10, 5, 2 WHERE $2::uuid IS NOT NULL ON CONFLICT DO NOTHING`,
	} {
		execAs(t, f, p, sql, p.Tenant, question, days)
	}
}

const agesSQL = `SELECT concat_ws(' / ',
	(SELECT string_agg(item::text, ' ' ORDER BY item) FROM llm_calls),
	(SELECT string_agg((now()::date - created_at::date)::text, ' ' ORDER BY created_at DESC) FROM llm_search_calls),
	(SELECT string_agg(((now() AT TIME ZONE 'UTC')::date - day)::text, ' ' ORDER BY day DESC) FROM llm_days))`

// Old calls of all tenants are deleted, some at a time, and by several processes at once; what
// budgets count is kept.
func TestOldCallsAreForgottenByManyAtOnce(t *testing.T) {
	f := setUp(t, store.Options{})
	before := map[uuid.UUID]schema.LLMUsage{}
	for _, x := range []struct {
		schema.Principal
		collection uuid.UUID
	}{{f.a, f.collection}, {f.b, f.foreign}} {
		for _, days := range []int{0, 1, 29, 31, 61, 63, 89, 91, 400} {
			f.called(t, x.Principal, uuid.New(), days)
		}
		before[x.Tenant] = f.usage(t, x.Principal)
	}
	if n := before[f.a.Tenant].Day.InputTokens; n != 10 {
		t.Fatalf("today's input tokens are %d", n)
	}

	// Calls of a running question are needed when a step is repeated.
	up := f.upload(t, f.a, f.collection, text("a", "text"))
	running := f.ask(t, f.a, f.collection, up.Version, false)
	execAs(t, f, f.a, `UPDATE questions SET state = 'running' WHERE id = $1`, running)
	f.called(t, f.a, running, 500)

	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			for {
				n, err := f.ForgetCalls(t.Context(), keep, 2)
				if err != nil {
					t.Error(err)
				}
				if n == 0 || err != nil {
					return
				}
			}
		})
	}
	all.Wait()
	const want = "0 1 29 31 61 63 89"
	if got := one[string](t, f, f.b, agesSQL); got != want+" / 0 1 29 / 0 1 29 31 61" {
		t.Errorf("of tenant B are left %s", got)
	}
	if got := one[string](t, f, f.a, agesSQL); got != "0 "+want+" 500 / 0 1 29 / 0 1 29 31 61" {
		t.Errorf("of tenant A are left %s", got)
	}
	for _, p := range []schema.Principal{f.a, f.b} {
		if got := f.usage(t, p); got.Day != before[p.Tenant].Day || got.Month != before[p.Tenant].Month {
			t.Errorf("used %+v, before %+v", got, before[p.Tenant])
		}
	}
	// A budget of today's tokens and four more still applies.
	f.limit(t, f.a, schema.LLMLimits{TokensPerDay: new(int64(19)), TokensPerMonth: new(before[f.a.Tenant].Month.InputTokens + before[f.a.Tenant].Month.OutputTokens + 100)})
	if _, err := f.Reserve(t.Context(), reservation(f.a, 5, 0)); !errors.Is(err, schema.ErrQuota) {
		t.Errorf("five tokens of four: %v", err)
	}
	if _, err := f.Reserve(t.Context(), reservation(f.a, 4, 0)); err != nil {
		t.Errorf("four tokens of four: %v", err)
	}

	// Once the question has ended, its old call is deleted, too; 0 keeps for ever.
	execAs(t, f, f.a, `UPDATE questions SET state = 'answered' WHERE id = $1`, running)
	if n, err := f.ForgetCalls(t.Context(), ledger.Retention{}, 100); n != 0 || err != nil {
		t.Errorf("kept for ever: forgot %d, %v", n, err)
	}
	if n, err := f.ForgetCalls(t.Context(), keep, 100); n != 1 || err != nil {
		t.Errorf("of a question that ended: forgot %d, %v", n, err)
	}
}

func TestRetentionIsChecked(t *testing.T) {
	f := setUp(t, store.Options{})
	for field, r := range map[string]ledger.Retention{
		"SLUICE_KEEP_LLM_CALLS": {Calls: -1}, "SLUICE_KEEP_LLM_SEARCH_CALLS": {SearchCalls: 1 << 30}, "SLUICE_KEEP_LLM_DAYS": {Days: 31},
	} {
		_, err := f.ForgetCalls(t.Context(), r, 10)
		var wrong *schema.FieldError
		if !errors.As(err, &wrong) || wrong.Field != field {
			t.Errorf("%+v: %v", r, err)
		}
	}
}

// Deleting a document blanks the replies that are still stored, and works where they were deleted
// already.
func TestPurgeFindsForgottenCallsGone(t *testing.T) {
	f := setUp(t, store.Options{KeepSuperseded: -1})
	up := f.upload(t, f.a, f.collection, text("gone", "secret"))
	f.goLive(t, f.a, up.Document, up.Version)
	kept, old := f.ask(t, f.a, f.collection, up.Version, true), f.ask(t, f.a, f.collection, up.Version, false)
	owner := connect(t, f.owner)
	defer owner.Close(context.Background()) //nolint:errcheck // a test's
	if _, err := owner.Exec(t.Context(), `UPDATE llm_calls SET created_at = now() - interval '91 days' WHERE question_id = $1`, old); err != nil {
		t.Fatal(err)
	}
	if n, err := f.ForgetCalls(t.Context(), keep, 100); err != nil || n != 1 {
		t.Fatalf("forgot %d, %v", n, err)
	}
	if err := f.DeleteDocument(t.Context(), f.a, up.Document); err != nil {
		t.Fatal(err)
	}
	if n := f.purgeAll(t); n != 1 {
		t.Errorf("purged %d versions", n)
	}
	const removed = "Removed: a document that this answer was built on was deleted. f [] t 0 0"
	if got := one[string](t, f, f.a, answerSQL, kept); got != removed+" {}" {
		t.Errorf("the answer whose call is kept: %q", got)
	}
	if got := one[string](t, f, f.a, answerSQL, old); got != removed {
		t.Errorf("the answer whose call was forgotten: %q", got)
	}
}

// A question is sampled just before its answer is stored. A process that looked in between would
// find nothing to learn from, and come back only after a while.
func TestAQuestionIsTakenToLearnFromOnceItHasEnded(t *testing.T) {
	f := setUp(t, store.Options{})
	up := f.upload(t, f.a, f.collection, text("a", "of a"))
	f.goLive(t, f.a, up.Document, up.Version)
	in := wire.QuestionInput{Tenant: f.a.Tenant, Question: f.ask(t, f.a, f.collection, up.Version, true)}
	become := func(state string) {
		t.Helper()
		err := f.AsTenant(t.Context(), f.a.Tenant, func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `UPDATE questions SET state = $1 WHERE id = $2`, state, in.Question)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	become("running")
	if err := f.Sample(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		state string
		want  int
	}{{"queued", 0}, {"running", 0}, {"answered", 1}} {
		become(c.state)
		due, err := f.ClaimSampled(t.Context(), 4, time.Hour)
		if err != nil || len(due) != c.want {
			t.Errorf("of a question that is %s %v are taken: %v", c.state, due, err)
		}
	}
}

// What was learnt from questions is deleted with its source: the collection, or the document.
// Another tenant's is kept.
func TestKnownQuestionsGoWithTheirCollection(t *testing.T) {
	f := setUp(t, store.Options{KeepSuperseded: -1})
	other, err := f.CreateCollection(t.Context(), f.a, schema.NewCollection{Name: "other"})
	if err != nil {
		t.Fatal(err)
	}
	up := f.upload(t, f.a, f.collection, text("a", "of a"))
	f.goLive(t, f.a, up.Document, up.Version)
	elsewhere := f.upload(t, f.a, other.ID, text("b", "of b"))
	f.goLive(t, f.a, elsewhere.Document, elsewhere.Version)
	theirs := f.upload(t, f.b, f.foreign, text("c", "of c"))
	f.goLive(t, f.b, theirs.Document, theirs.Version)
	sample := func(p schema.Principal, question uuid.UUID, known bool) {
		in := wire.QuestionInput{Tenant: p.Tenant, Question: question}
		if err := f.Sample(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		if known {
			if err := f.Learn(t.Context(), in, "test", make([]float32, 4), true); err != nil {
				t.Fatal(err)
			}
		}
	}
	count := func(p schema.Principal, want int, when string) {
		t.Helper()
		if n := one[int](t, f, p, `SELECT count(*) FROM known_questions`); n != want {
			t.Errorf("%s: %d are known, want %d", when, n, want)
		}
	}
	of := f.ask(t, f.a, f.collection, up.Version, true)
	sample(f.a, of, true)
	sample(f.a, f.ask(t, f.a, f.collection, up.Version, false), false)
	sample(f.a, f.ask(t, f.a, other.ID, elsewhere.Version, true), true)
	sample(f.a, f.ask(t, f.a, other.ID, up.Version, false), true) // not from a document of its collection
	sample(f.b, f.ask(t, f.b, f.foreign, theirs.Version, true), true)
	count(f.a, 4, "at first")

	if err := f.DeleteCollection(t.Context(), f.a, f.collection); err != nil {
		t.Fatal(err)
	}
	count(f.a, 2, "after the collection's deletion")
	sample(f.a, of, false)
	count(f.a, 2, "sampled after it")
	f.purgeAll(t)
	count(f.a, 1, "after the purge of a document that an answer of another collection was built on")
	if err := f.DeleteDocument(t.Context(), f.a, elsewhere.Document); err != nil {
		t.Fatal(err)
	}
	f.purgeAll(t)
	count(f.a, 0, "after the deletion of the other document")
	count(f.b, 1, "another tenant's")
}
