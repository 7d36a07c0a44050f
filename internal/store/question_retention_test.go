package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/ledger"
	"github.com/sluice-rag/sluice/internal/store/questions"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// deleteAll deletes by several callers at once until nothing is left to delete.
func (f *fixture) deleteAll(t *testing.T, r questions.QuestionRetention) {
	t.Helper()
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			for {
				n, err := f.ForgetQuestions(t.Context(), r, 2)
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
}

// old sets the age of a question, and of what belongs to it, in days.
func (f *fixture) old(t *testing.T, p schema.Principal, question uuid.UUID, days int) {
	t.Helper()
	execAs(t, f, p, `UPDATE questions SET created_at = now() - make_interval(days => $2) WHERE id = $1`, question, days)
	execAs(t, f, p, `UPDATE retrievals SET created_at = now() - make_interval(days => $2) WHERE question_id = $1`, question, days)
}

const leftOfQuestionSQL = `SELECT concat_ws(' ', (SELECT count(*) FROM questions WHERE id = $1), (SELECT count(*) FROM answers WHERE question_id = $1),
	(SELECT count(*) FROM citations WHERE question_id = $1), (SELECT count(*) FROM retrievals WHERE question_id = $1),
	(SELECT count(*) FROM retrieval_versions WHERE question_id = $1), (SELECT count(*) FROM known_questions WHERE question_id = $1))`

// Old questions of all tenants are deleted with everything that belongs to them, some at a time and
// by several callers at once; what anything needs is kept.
func TestOldQuestionsAreForgottenByManyAtOnce(t *testing.T) {
	f := setUp(t, store.Options{})
	up := f.upload(t, f.a, f.collection, text("a", "text"))
	theirs := f.upload(t, f.b, f.foreign, text("b", "text"))
	webhook := uuid.New()
	owner := connect(t, f.owner)
	defer owner.Close(context.Background()) //nolint:errcheck // a test's
	byOwner := func(sql string, args ...any) {
		t.Helper()
		if _, err := owner.Exec(t.Context(), sql, args...); err != nil {
			t.Fatal(err)
		}
	}
	type asked struct {
		name string
		of   schema.Principal
		id   uuid.UUID
		goes bool
	}
	var all []asked
	ask := func(name string, days int, goes bool, more ...string) {
		t.Helper()
		q := asked{name: name, of: f.a, goes: goes}
		collection, version := f.collection, up.Version
		if name == "another tenant's" {
			q.of, collection, version = f.b, f.foreign, theirs.Version
		}
		q.id = f.ask(t, q.of, collection, version, true)
		byOwner(`DELETE FROM llm_calls WHERE question_id = $1`, q.id)
		for _, sql := range more {
			execAs(t, f, q.of, sql, q.of.Tenant, q.id)
		}
		f.old(t, q.of, q.id, days)
		all = append(all, q)
	}
	const (
		lease = `INSERT INTO leases (tenant_id, subject_id, kind, attempt, holder, expires_at) VALUES ($1, $2, 'question', 1, 'w', now())`
		rate  = `INSERT INTO ratings (tenant_id, id, question_id, key_id, rating) VALUES ($1, gen_random_uuid(), $2, gen_random_uuid(), 'up')`
		call  = `INSERT INTO llm_calls (tenant_id, question_id, round, step, item, task, provider, model, input_tokens, output_tokens, millis, request_hash, reply)
			VALUES ($1, $2, 0, 'answer', 0, 'answer', 'p', 'm', 1, 1, 1, '\x01', '{}')`
		learn    = `INSERT INTO known_questions (tenant_id, question_id) VALUES ($1, $2)`
		delivery = `INSERT INTO webhook_deliveries (tenant_id, webhook_id, id, kind, subject_id, state) VALUES ($1, '%s', gen_random_uuid(), 'question.answered', $2, '%s')`
		become   = `UPDATE questions SET state = '%s', reason_code = %s WHERE tenant_id = $1 AND id = $2`
	)
	for i := range 5 {
		ask(fmt.Sprint("old ", i), 31, true)
	}
	ask("another tenant's", 400, true)
	ask("sampled", 31, true, learn)
	ask("failed", 31, true, fmt.Sprintf(become, "failed", "'internal'"))
	ask("cancelled", 31, true, fmt.Sprintf(become, "cancelled", "NULL"))
	ask("told to a webhook", 31, true, fmt.Sprintf(delivery, webhook, "delivered"))
	ask("young", 29, false)
	ask("queued", 400, false, fmt.Sprintf(become, "queued", "NULL"))
	ask("running", 400, false, fmt.Sprintf(become, "running", "NULL"))
	ask("held", 400, false, lease)
	ask("rated", 400, false, rate)
	ask("in the ledger", 400, false, call)
	ask("to be told to a webhook", 400, false, fmt.Sprintf(delivery, webhook, "waiting"))
	f.deleteAll(t, questions.QuestionRetention{Questions: 30})
	for _, q := range all {
		want := "1 1 1 1 1 0"
		if q.goes {
			want = "0 0 0 0 0 0"
		}
		if got := one[string](t, f, q.of, leftOfQuestionSQL, q.id); got != want {
			t.Errorf("%s: of question, answer, citations, retrieval and versions are left %s, want %s", q.name, got, want)
		}
	}
	// Nothing needs them any more.
	execAs(t, f, f.a, `DELETE FROM ratings`)
	for _, table := range []string{"leases", "llm_calls", "webhook_deliveries"} {
		byOwner(`DELETE FROM ` + table)
	}
	if n, err := f.ForgetQuestions(t.Context(), questions.QuestionRetention{}, 100); n != 0 || err != nil {
		t.Errorf("kept for ever: forgot %d, %v", n, err)
	}
	if n, err := f.ForgetQuestions(t.Context(), questions.QuestionRetention{Questions: 30}, 100); n != 4 || err != nil {
		t.Errorf("forgot %d, %v", n, err)
	}
}

// TestRatingsDuringTheSweepAreKept: a rating during the deletion of old questions either finds no
// answer, or keeps the question.
func TestRatingsDuringTheSweepAreKept(t *testing.T) {
	f := setUp(t, store.Options{})
	var asked []uuid.UUID
	for range 40 {
		id := f.answered(t, f.a)
		f.old(t, f.a, id, 31)
		asked = append(asked, id)
	}
	var rated []uuid.UUID
	var raters sync.WaitGroup
	raters.Go(func() {
		for _, id := range slices.Backward(asked) {
			switch _, err := f.Rate(t.Context(), f.a, id, schema.ThumbsUp, ""); {
			case err == nil:
				rated = append(rated, id)
			case !errors.Is(err, schema.ErrNotFound):
				t.Error(err)
			}
		}
	})
	f.deleteAll(t, questions.QuestionRetention{Questions: 30})
	raters.Wait()
	left := one[[]uuid.UUID](t, f, f.a, `SELECT coalesce(array_agg(id), '{}') FROM questions`)
	for _, id := range rated {
		if !slices.Contains(left, id) || one[int](t, f, f.a, `SELECT count(*) FROM ratings r JOIN answers USING (tenant_id, question_id) WHERE r.question_id = $1`, id) != 1 {
			t.Errorf("the rating of %s is lost", id)
		}
	}
	if len(left) != len(rated) {
		t.Errorf("%d are left, %d were rated", len(left), len(rated))
	}
}

// Search results are emptied before their question is deleted, and an answer made from them is
// still removed with its document.
func TestOldRetrievalsAreEmptied(t *testing.T) {
	f := setUp(t, store.Options{KeepSuperseded: -1})
	up := f.upload(t, f.a, f.collection, text("gone", "secret"))
	f.goLive(t, f.a, up.Document, up.Version)
	old, young, running := f.ask(t, f.a, f.collection, up.Version, false), f.ask(t, f.a, f.collection, up.Version, false), f.ask(t, f.a, f.collection, up.Version, false)
	execAs(t, f, f.a, `UPDATE questions SET state = 'running' WHERE id = $1`, running)
	f.old(t, f.a, old, 8)
	f.old(t, f.a, young, 6)
	f.old(t, f.a, running, 8)
	f.deleteAll(t, questions.QuestionRetention{Retrievals: 7})
	const sql = `SELECT concat_ws(' ', candidates = '[]', trace = '[]', pool IS NULL, emptied_at IS NOT NULL, (SELECT count(*) FROM retrieval_versions v WHERE v.question_id = r.question_id))
		FROM retrievals r WHERE question_id = $1`
	for id, want := range map[uuid.UUID]string{old: "t t t t 1", young: "f t t f 1", running: "f t t f 1"} {
		if got := one[string](t, f, f.a, sql, id); got != want {
			t.Errorf("a retrieval is %s, want %s", got, want)
		}
	}
	if n, err := f.ForgetQuestions(t.Context(), questions.QuestionRetention{Retrievals: 7}, 100); n != 0 || err != nil {
		t.Errorf("again: %d, %v", n, err)
	}
	if err := f.DeleteDocument(t.Context(), f.a, up.Document); err != nil {
		t.Fatal(err)
	}
	f.purgeAll(t)
	if got := one[string](t, f, f.a, answerSQL, old); got != "Removed: a document that this answer was built on was deleted. f [] t 0 0 {}" {
		t.Errorf("the answer is left as %q", got)
	}
}

func TestQuestionRetentionIsChecked(t *testing.T) {
	for _, c := range []struct {
		keep   questions.QuestionRetention
		ledger int
		field  string
	}{
		{questions.QuestionRetention{}, 90, ""},
		{questions.QuestionRetention{Questions: 90, Retrievals: 1}, 90, ""},
		{questions.QuestionRetention{Retrievals: 1}, 0, ""},
		{questions.QuestionRetention{Questions: 89}, 90, "SLUICE_KEEP_QUESTIONS"},
		{questions.QuestionRetention{Questions: 1000}, 0, "SLUICE_KEEP_QUESTIONS"},
		{questions.QuestionRetention{Questions: -1}, 0, "SLUICE_KEEP_QUESTIONS"},
		{questions.QuestionRetention{Retrievals: 1 << 30}, 0, "SLUICE_KEEP_RETRIEVALS"},
	} {
		err := c.keep.Check(c.ledger)
		var wrong *schema.FieldError
		if (c.field == "") != (err == nil) || err != nil && (!errors.As(err, &wrong) || wrong.Field != c.field) {
			t.Errorf("%+v beside %d days of calls: %v", c.keep, c.ledger, err)
		}
	}
}

// Tenants that ask no more questions do not bound their cache themselves.
func TestOldCachedRepliesAreForgotten(t *testing.T) {
	f := setUp(t, store.Options{})
	c := ledger.NewReplyCache(f.Store, time.Hour, 10)
	first, third := key("1"), key("3")
	for _, p := range []schema.Principal{f.a, f.b} {
		for i := range 5 {
			if err := c.Save(t.Context(), p.Tenant, key(fmt.Sprint(i)), nil, wire.LLMReply{Text: "x"}); err != nil {
				t.Fatal(err)
			}
		}
		execAs(t, f, p, `UPDATE llm_cache SET created_at = now() - interval '2 hours' WHERE key = $1 OR key = $2`, first[:], third[:])
	}
	total := 0
	for {
		n, err := f.ForgetCached(t.Context(), time.Hour, 3)
		if err != nil || n > 3 {
			t.Fatalf("forgot %d, %v", n, err)
		}
		if total += n; n == 0 {
			break
		}
	}
	for _, p := range []schema.Principal{f.a, f.b} {
		if n := one[int](t, f, p, `SELECT count(*) FROM llm_cache`); n != 3 || total != 4 || f.cached(t, c, p, "2") != "x" {
			t.Errorf("%d are left, %d were forgotten", n, total)
		}
	}
	// Without a cache, an age of 0, nothing is kept.
	if n, err := f.ForgetCached(t.Context(), 0, 100); n != 6 || err != nil {
		t.Errorf("forgot %d, %v", n, err)
	}
}
