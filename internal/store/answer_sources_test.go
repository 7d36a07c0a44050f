package store_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

// TestStoredAnswersFollowLabels: an answer may be read by those who may currently see everything
// that it was made from.
func TestStoredAnswersFollowLabels(t *testing.T) {
	f := setUp(t, store.Options{})
	for _, quoted := range []bool{true, false} {
		w := &written{name: uuid.NewString(), body: "hello"}
		f.write(t, f.a, f.collection, w)
		asker := f.reader()
		q := f.ask(t, asker, f.collection, w.version, quoted)
		execAs(t, f, f.a, `UPDATE questions SET async = true WHERE id = $1`, q)
		if _, err := f.Rate(t.Context(), asker, q, schema.ThumbsUp, "good"); err != nil {
			t.Fatal(err)
		}
		legal := asker
		legal.Groups = []string{"legal"}
		shown := func(p schema.Principal, want bool) {
			t.Helper()
			asked, err := f.AskedQuestion(t.Context(), p, q)
			if err != nil {
				t.Fatal(err)
			}
			job, err := f.Job(t.Context(), p, q)
			if err != nil {
				t.Fatal(err)
			}
			rated, _, err := f.Ratings(t.Context(), p, schema.RatingQuery{Question: q})
			if err != nil || len(rated) != 1 {
				t.Fatal(rated, err)
			}
			hidden, err := f.SourcesHidden(t.Context(), p, q)
			if err != nil || hidden == want {
				t.Errorf("sources hidden: %v, %v", hidden, err)
			}
			for _, a := range []schema.Answer{*asked.Result, *job.Result,
				{Answer: rated[0].Answer, Withheld: rated[0].Withheld, Citations: rated[0].Citations, Supported: rated[0].Supported}} {
				text := a.Answer == "hello" && a.Supported && (len(a.Citations) == 1) == quoted
				if text != want || a.Withheld == want || !want && (len(a.Citations) > 0 || len(a.Trace) > 0 || strings.Contains(a.Answer, "hello")) {
					t.Errorf("groups %v, quoted %v: %+v, want it shown: %v", p.Groups, quoted, a, want)
				}
			}
		}
		shown(asker, true)
		shown(f.a, true)
		labels := []string{"legal"}
		if _, err := f.UpdateDocument(t.Context(), f.a, w.id, schema.DocumentChange{Labels: &labels}); err != nil {
			t.Fatal(err)
		}
		shown(asker, false)
		shown(f.a, false) // labels apply whatever the scopes
		shown(legal, true)
		// The same when the version was purged: its labels are kept.
		f.write(t, f.a, f.collection, &written{name: w.name, body: "open"})
		execAs(t, f, f.a, `UPDATE versions SET retired_at = now() - interval '1 year' WHERE id = $1`, w.version)
		f.purgeAll(t)
		if !one[bool](t, f, f.a, `SELECT purged_at IS NOT NULL FROM versions WHERE id = $1`, w.version) {
			t.Fatal("the version was not purged")
		}
		shown(asker, false)
		shown(legal, true)
		if err := f.DeleteDocument(t.Context(), f.a, w.id); err != nil {
			t.Fatal(err)
		}
		shown(legal, false) // before the purge
	}
}

// TestQuestionsOfPeopleAreApart: a key that asks on behalf of people reads as the person that it
// names.
func TestQuestionsOfPeopleAreApart(t *testing.T) {
	f := setUp(t, store.Options{})
	app := f.reader()
	ann, bob := app, app
	ann.Person, bob.Person = "ann", "bob"
	made := map[string]uuid.UUID{}
	for _, p := range []schema.Principal{app, ann, bob} {
		job, _ := f.question(t, p, true)
		made[p.Person] = job.ID
	}
	admin := f.a
	for _, p := range []schema.Principal{app, ann, bob} {
		jobs, _, err := f.ListJobs(t.Context(), p, schema.PageQuery{})
		if err != nil || len(jobs) != 1 || jobs[0].ID != made[p.Person] {
			t.Errorf("%q lists jobs %+v, %v", p.Person, jobs, err)
		}
		asked, _, err := f.AskedQuestions(t.Context(), p, uuid.Nil, schema.PageQuery{})
		if err != nil || len(asked) != 1 || asked[0].ID != made[p.Person] || asked[0].Person != p.Person || asked[0].Key != app.Key {
			t.Errorf("%q lists questions %+v, %v", p.Person, asked, err)
		}
		for person, id := range made {
			_, err := f.AskedQuestion(t.Context(), p, id)
			_, jobErr := f.Job(t.Context(), p, id)
			_, cancelErr := f.CancelJob(t.Context(), p, id)
			for _, err := range []error{err, jobErr, cancelErr} {
				if (err == nil) != (person == p.Person) || err != nil && !errors.Is(err, schema.ErrNotFound) {
					t.Errorf("%q reads %q's question: %v", p.Person, person, err)
				}
			}
		}
	}
	if jobs, _, err := f.ListJobs(t.Context(), admin, schema.PageQuery{}); err != nil || len(jobs) != 3 {
		t.Errorf("an admin lists %d jobs, %v", len(jobs), err)
	}
	entries, _, err := f.Audit(t.Context(), admin, schema.AuditQuery{PageQuery: schema.PageQuery{Limit: 500}})
	if err != nil {
		t.Fatal(err)
	}
	var people []string
	for _, e := range entries {
		if e.Action == "job.cancel" || e.Action == "question.ask" {
			person, _ := e.Detail["person"].(string)
			people = append(people, e.Action+" "+person)
		}
	}
	slices.Sort(people)
	if want := "job.cancel |job.cancel ann|job.cancel bob|question.ask ann|question.ask bob"; strings.Join(people, "|") != want {
		t.Errorf("the audit log has %q, want %q", people, want)
	}
}

// TestWebhooksGetAnswersByTheirGroups: a webhook reads with the rights of the key that created it.
func TestWebhooksGetAnswersByTheirGroups(t *testing.T) {
	f := setUp(t, store.Options{})
	legal := f.a
	legal.Groups = []string{"legal"}
	plain := f.hook(t, f.a, []string{schema.IncludeResult}, schema.WebhookQuestionAnswered)
	allowed := f.hook(t, legal, []string{schema.IncludeResult}, schema.WebhookQuestionAnswered)
	w := &written{name: "plan", body: "heron", labels: []string{"legal"}}
	f.write(t, f.a, f.collection, w)
	_, in := f.question(t, legal, true)
	if err := f.SaveAnswer(t.Context(), in, schema.Answer{Answer: "heron", Supported: true,
		Citations: []schema.Citation{{Document: "plan", DocumentID: w.id, Quote: "heron", Span: schema.Span{Version: w.version, Section: uuid.New(), End: 5}}}}); err != nil {
		t.Fatal(err)
	}
	sent := map[uuid.UUID]schema.Answer{}
	for _, c := range f.claim(t, soon(), 10, plain, allowed) {
		d, err := f.Delivery(t.Context(), c, time.Now())
		if err != nil || d.Job == nil || d.Job.Result == nil {
			t.Fatalf("%+v, %v", d, err)
		}
		sent[c.Webhook] = *d.Job.Result
	}
	if a := sent[plain.ID]; !a.Withheld || len(a.Citations) != 0 || strings.Contains(a.Answer, "heron") {
		t.Errorf("a webhook without the group gets %+v", a)
	}
	if a := sent[allowed.ID]; a.Withheld || len(a.Citations) != 1 || a.Answer != "heron" {
		t.Errorf("a webhook with the group gets %+v", a)
	}
}
