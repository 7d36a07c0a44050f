package store_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

// rater returns another key of p's tenant, which may query.
func rater(p schema.Principal) schema.Principal {
	return schema.Principal{Tenant: p.Tenant, Key: schema.NewID(), Name: "asker", Scopes: []schema.Scope{schema.ScopeQuery}}
}

// answered returns a question of p with an answer that cites a document.
func (f *fixture) answered(t *testing.T, p schema.Principal) uuid.UUID {
	t.Helper()
	_, in := f.question(t, p, false)
	up := f.upload(t, f.a, f.collection, text("contract.md", "It runs for two years."))
	a := schema.Answer{Answer: "Two years.", Supported: true, Plan: "naive", Citations: []schema.Citation{{Document: "contract.md", DocumentID: up.Document, Title: "Contract",
		Quote: "It runs for two years.", Span: schema.Span{Version: up.Version, Section: schema.NewID(), End: 22}, Answer: schema.ShortAnswer{Start: 12, End: 21, Confidence: 0.5}}}}
	if err := f.SaveAnswer(t.Context(), in, a); err != nil {
		t.Fatal(err)
	}
	return in.Question
}

func TestRatings(t *testing.T) {
	f := setUp(t, store.Options{})
	one, two := rater(f.a), rater(f.a)
	q := f.answered(t, one)
	rated, err := f.Rate(t.Context(), one, q, schema.ThumbsUp, "right")
	if err != nil || rated.Question != q || rated.Key != one.Key || rated.Rating != schema.ThumbsUp || rated.Comment != "right" {
		t.Fatalf("rated %+v, %v", rated, err)
	}
	// Repeating a rating changes nothing; a different one changes the same rating.
	if again, err := f.Rate(t.Context(), one, q, schema.ThumbsUp, "right"); err != nil || again != rated {
		t.Errorf("rated again %+v, %v", again, err)
	}
	changed, err := f.Rate(t.Context(), one, q, schema.ThumbsDown, "")
	if err != nil || changed.ID != rated.ID || changed.Rating != schema.ThumbsDown || changed.Comment != "" || !changed.UpdatedAt.After(rated.UpdatedAt) || !changed.CreatedAt.Equal(rated.CreatedAt) {
		t.Errorf("changed %+v to %+v, %v", rated, changed, err)
	}
	// An admin sees and rates what others asked; for another key the question does not exist.
	byAdmin, err := f.Rate(t.Context(), f.a, q, schema.ThumbsUp, "as admin")
	if err != nil || byAdmin.ID == rated.ID {
		t.Errorf("the admin rated %+v, %v", byAdmin, err)
	}
	for name, p := range map[string]schema.Principal{"another key": two, "another tenant": f.b} {
		if _, err := f.Rate(t.Context(), p, q, schema.ThumbsUp, ""); !errors.Is(err, schema.ErrNotFound) {
			t.Errorf("%s: rate gave %v", name, err)
		}
		if err := f.Unrate(t.Context(), p, q); !errors.Is(err, schema.ErrNotFound) {
			t.Errorf("%s: taking back gave %v", name, err)
		}
		if list, _, err := f.Ratings(t.Context(), p, schema.RatingQuery{Question: q}); err != nil || len(list) != 0 {
			t.Errorf("%s lists %+v, %v", name, list, err)
		}
	}

	other := f.answered(t, two)
	if _, err := f.Rate(t.Context(), two, other, schema.ThumbsUp, ""); err != nil {
		t.Fatal(err)
	}
	list := func(p schema.Principal, q schema.RatingQuery) ([]schema.RatedAnswer, string) {
		t.Helper()
		out, next, err := f.Ratings(t.Context(), p, q)
		if err != nil {
			t.Fatal(err)
		}
		return out, next
	}
	first, next := list(f.a, schema.RatingQuery{PageQuery: schema.PageQuery{Limit: 2}})
	if len(first) != 2 || first[0].Question != other || first[1].ID != byAdmin.ID || next == "" {
		t.Fatalf("the first page is %+v, %q", first, next)
	}
	got := first[1]
	if got.Collection != f.collection || got.Text != "How long?" || got.Plan != "naive" || got.Answer != "Two years." || !got.Supported || got.Comment != "as admin" ||
		len(got.Citations) != 1 || got.Citations[0].Document != "contract.md" || got.Citations[0].Answer.Text != "two years" {
		t.Errorf("listed is %+v", got)
	}
	if last, next := list(f.a, schema.RatingQuery{PageQuery: schema.PageQuery{Limit: 2, Cursor: next}}); len(last) != 1 || last[0].ID != rated.ID || next != "" {
		t.Errorf("the last page is %+v, %q", last, next)
	}
	for name, c := range map[string]struct {
		p    schema.Principal
		q    schema.RatingQuery
		want int
	}{
		"an asker's":          {one, schema.RatingQuery{}, 1},
		"the admin's own":     {f.a, schema.RatingQuery{Own: true}, 1},
		"up":                  {f.a, schema.RatingQuery{Rating: schema.ThumbsUp}, 2},
		"down":                {f.a, schema.RatingQuery{Rating: schema.ThumbsDown}, 1},
		"of a question":       {f.a, schema.RatingQuery{Question: q}, 2},
		"of the collection":   {f.a, schema.RatingQuery{Collection: f.collection}, 3},
		"of no collection":    {f.a, schema.RatingQuery{Collection: schema.NewID()}, 0},
		"of another's tenant": {f.b, schema.RatingQuery{}, 0},
	} {
		if got, _ := list(c.p, c.q); len(got) != c.want {
			t.Errorf("%s: %d ratings, not %d", name, len(got), c.want)
		}
	}
	if err := f.Unrate(t.Context(), one, q); err != nil {
		t.Error(err)
	}
	if err := f.Unrate(t.Context(), one, q); !errors.Is(err, schema.ErrNotFound) {
		t.Errorf("taken back twice: %v", err)
	}
	if got, _ := list(f.a, schema.RatingQuery{Question: q}); len(got) != 1 {
		t.Errorf("the admin's rating went, too: %+v", got)
	}
}

func TestWhatCannotBeRated(t *testing.T) {
	f := setUp(t, store.Options{})
	p := rater(f.a)
	open, _ := f.question(t, p, true)
	if _, err := f.Rate(t.Context(), p, open.ID, schema.ThumbsUp, ""); !errors.Is(err, schema.ErrConflict) || !strings.Contains(err.Error(), "queued") {
		t.Errorf("a question without an answer: %v", err)
	}
	q := f.answered(t, p)
	for name, try := range map[string]func() error{
		"rating": func() error { _, err := f.Rate(t.Context(), p, q, "sideways", ""); return err },
		"comment": func() error {
			_, err := f.Rate(t.Context(), p, q, schema.ThumbsUp, strings.Repeat("x", 8001))
			return err
		},
		"cursor": func() error {
			_, _, err := f.Ratings(t.Context(), p, schema.RatingQuery{PageQuery: schema.PageQuery{Cursor: "x"}})
			return err
		},
	} {
		var field *schema.FieldError
		if err := try(); !errors.As(err, &field) || field.Field != name {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A comment may repeat what the document said: it is removed with the answer.
func TestRatingsGoWithTheDocument(t *testing.T) {
	f := setUp(t, store.Options{KeepSuperseded: -1})
	var questions, documents []uuid.UUID
	for _, name := range []string{"gone.txt", "stays.txt"} {
		u := f.upload(t, f.a, f.collection, text(name, "hello"))
		f.goLive(t, f.a, u.Document, u.Version)
		q := f.ask(t, f.a, f.collection, u.Version, true)
		if _, err := f.Rate(t.Context(), f.a, q, schema.ThumbsDown, "it is not hello"); err != nil {
			t.Fatal(err)
		}
		questions, documents = append(questions, q), append(documents, u.Document)
	}
	if err := f.DeleteDocument(t.Context(), f.a, documents[0]); err != nil {
		t.Fatal(err)
	}
	f.purgeAll(t)
	left, _, err := f.Ratings(t.Context(), f.a, schema.RatingQuery{})
	if err != nil || len(left) != 1 || left[0].Question != questions[1] {
		t.Errorf("left are %+v, %v", left, err)
	}
	if _, err := f.Rate(t.Context(), f.a, questions[0], schema.ThumbsUp, ""); !errors.Is(err, schema.ErrConflict) || !strings.Contains(err.Error(), "removed") {
		t.Errorf("an answer that was removed: %v", err)
	}
}
