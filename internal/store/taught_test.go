package store_test

import (
	"crypto/sha256"
	"errors"
	"slices"
	"testing"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/preference"
	"github.com/sluice-rag/sluice/internal/question/learn"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

// taught records one question as taught for a tenant, and labels one text of a version.
func (f *fixture) taught(t *testing.T, p schema.Principal, collection, version uuid.UUID, model string, known bool) learn.Of {
	t.Helper()
	of := learn.Of{Tenant: p.Tenant, Collection: collection, Question: sha256.Sum256([]byte("why?")), Model: model}
	if err := f.KeepQuestion(t.Context(), of, schema.LabelledQuestion{Question: "why?", Answers: []string{"of " + model}}); err != nil {
		t.Fatal(err)
	}
	if err := f.Teach(t.Context(), of, "space", []float32{1, 0}, known); err != nil {
		t.Fatal(err)
	}
	l := learn.Label{Passage: sha256.Sum256([]byte("text")), Version: version, HasAnswer: true, Preferred: true, Graph: "graph", Features: []float32{1, 2, 3}}
	if err := f.KeepLabel(t.Context(), of, l); err != nil {
		t.Fatal(err)
	}
	return of
}

var testHead = preference.Learnt{Head: preference.Head{Weights: []float64{1, 2, 3}, Bias: 4}, Questions: 40, Texts: 90, Area: .9, OwnArea: .8}

// TestWhatIsTaughtIsOfItsTenantAndModel: another tenant sees none of it, and it does not count for
// another model.
func TestWhatIsTaughtIsOfItsTenantAndModel(t *testing.T) {
	f := setUp(t, store.Options{})
	up := f.upload(t, f.a, f.collection, text("a", "text"))
	theirs := f.upload(t, f.b, f.foreign, text("b", "text"))
	of := f.taught(t, f.a, f.collection, up.Version, "openai/x", true)
	f.taught(t, f.b, f.foreign, theirs.Version, "openai/x", false)
	f.taught(t, f.a, f.collection, up.Version, "openai/y", false)
	for model, want := range map[string][]bool{"openai/x": {true}, "openai/y": {false}, "": nil, "openai/z": nil} {
		got, err := f.Known(t.Context(), f.a, "space", []float32{1, 0}, model, 10)
		if err != nil || len(got) != len(want) || len(want) > 0 && got[0] != want[0] {
			t.Errorf("model %q: known %v, %v; want %v", model, got, err, want)
		}
	}
	if got, err := f.Known(t.Context(), f.a, "another space", []float32{1, 0}, "openai/x", 10); err != nil || len(got) != 0 {
		t.Errorf("another space: %v, %v", got, err)
	}
	if known, err := f.Taught(t.Context(), of); err != nil || known == nil || !*known {
		t.Errorf("taught %v, %v", known, err)
	}
	// A question that two models are asked is stored once.
	if got, err := f.ImportedQuestions(t.Context(), f.a, f.collection, f.collection, 10); err != nil || len(got) != 1 || got[0].Question != "why?" || !slices.Equal(got[0].Answers, []string{"of openai/x"}) {
		t.Errorf("imported %+v, %v", got, err)
	}
	if got, err := f.ImportedQuestions(t.Context(), f.b, f.collection, f.collection, 10); err != nil || len(got) != 0 {
		t.Errorf("another tenant sees %+v, %v", got, err)
	}
	of.Question = sha256.Sum256([]byte("who?"))
	if known, err := f.Taught(t.Context(), of); err != nil || known != nil {
		t.Errorf("of another question: %v, %v", known, err)
	}
	samples, model, graph, err := f.LabelledTexts(t.Context(), f.a.Tenant, f.collection, "openai/x")
	if err != nil || len(samples) != 1 || model != "openai/x" || graph != "graph" || len(samples[0].X) != 3 || samples[0].X[2] != 3 || !samples[0].Prefer {
		t.Errorf("samples %v of %s and %s, %v", samples, model, graph, err)
	}
	if samples, _, _, err := f.LabelledTexts(t.Context(), f.b.Tenant, f.collection, ""); err != nil || len(samples) != 0 {
		t.Errorf("another tenant has %v, %v", samples, err)
	}
	if _, err := f.KeepPreference(t.Context(), f.b, f.collection, "openai/x", "graph", testHead); !errors.Is(err, schema.ErrNotFound) {
		t.Errorf("a head for another tenant's collection: %v", err)
	}
	// A text of another tenant's version is not labelled.
	of = learn.Of{Tenant: f.a.Tenant, Collection: f.collection, Question: sha256.Sum256([]byte("what?")), Model: "openai/x"}
	if err := f.KeepLabel(t.Context(), of, learn.Label{Version: theirs.Version, Features: []float32{1}}); err != nil {
		t.Fatal(err)
	}
	if labels, err := f.Labels(t.Context(), of); err != nil || len(labels) != 0 {
		t.Errorf("labels %v, %v", labels, err)
	}
}

// TestHeadsAreUsedWhereTheyTellBetter: the last learnt head is used, unless the pack's own reader
// was better.
func TestHeadsAreUsedWhereTheyTellBetter(t *testing.T) {
	f := setUp(t, store.Options{})
	kept, err := f.KeepPreference(t.Context(), f.a, f.collection, "openai/x", "graph", testHead)
	if err != nil || !kept.Kept || kept.LearntAt.IsZero() {
		t.Fatalf("kept %+v, %v", kept, err)
	}
	heads, err := f.Preferences(t.Context(), f.a, f.collection)
	if err != nil || len(heads) != 1 || heads[0].Model != "openai/x" || heads[0].Of != "graph" || heads[0].Questions != 40 || heads[0].Head.Weights[2] != 3 || heads[0].Head.Bias != 4 {
		t.Errorf("heads %+v, %v", heads, err)
	}
	if heads, err := f.Preferences(t.Context(), f.b, f.collection); err != nil || len(heads) != 0 {
		t.Errorf("another tenant has %+v, %v", heads, err)
	}
	worse := testHead
	worse.Area = .7
	if kept, err := f.KeepPreference(t.Context(), f.a, f.collection, "openai/x", "graph", worse); err != nil || kept.Kept {
		t.Errorf("kept %+v, %v", kept, err)
	}
	if heads, err := f.Preferences(t.Context(), f.a, f.collection); err != nil || len(heads) != 0 {
		t.Errorf("heads %+v, %v", heads, err)
	}
	if all, err := f.LearntPreferences(t.Context(), f.a, f.collection); err != nil || len(all) != 1 || all[0].Area != .7 || all[0].Kept {
		t.Errorf("listed %+v, %v", all, err)
	}
	if err := f.ForgetPreferences(t.Context(), f.a, f.collection); err != nil {
		t.Fatal(err)
	}
	if all, err := f.LearntPreferences(t.Context(), f.a, f.collection); err != nil || len(all) != 0 {
		t.Errorf("listed %+v, %v", all, err)
	}
	if got := one[string](t, f, f.a, taughtSQL, f.a.Tenant); got != "0 0 0 0" {
		t.Errorf("after all was forgotten: %s", got)
	}
}

const taughtSQL = `SELECT concat_ws(' ', (SELECT count(*) FROM taught_questions WHERE tenant_id = $1), (SELECT count(*) FROM imported_questions WHERE tenant_id = $1),
	(SELECT count(*) FROM preference_labels WHERE tenant_id = $1), (SELECT count(*) FROM preferences WHERE tenant_id = $1))`

// TestWhatIsTaughtGoesWithWhatItWasLearntFrom: a text's label is deleted with its version, and
// everything with the collection; nothing is added after either.
func TestWhatIsTaughtGoesWithWhatItWasLearntFrom(t *testing.T) {
	f := setUp(t, store.Options{KeepSuperseded: -1})
	up := f.upload(t, f.a, f.collection, text("gone", "text"))
	f.goLive(t, f.a, up.Document, up.Version)
	of := f.taught(t, f.a, f.collection, up.Version, "openai/x", true)
	if _, err := f.KeepPreference(t.Context(), f.a, f.collection, "openai/x", "graph", testHead); err != nil {
		t.Fatal(err)
	}
	left := func() string { t.Helper(); return one[string](t, f, f.a, taughtSQL, f.a.Tenant) }
	if got := left(); got != "1 1 1 1" {
		t.Fatalf("there are %s", got)
	}
	if err := f.DeleteDocument(t.Context(), f.a, up.Document); err != nil {
		t.Fatal(err)
	}
	f.purgeAll(t)
	if got := left(); got != "1 1 0 1" {
		t.Errorf("after the purge of its text: %s", got)
	}
	if err := f.KeepLabel(t.Context(), of, learn.Label{Version: up.Version, Features: []float32{1}}); err != nil {
		t.Fatal(err)
	}
	if got := left(); got != "1 1 0 1" {
		t.Errorf("a text that was purged is labelled: %s", got)
	}
	if err := f.DeleteCollection(t.Context(), f.a, f.collection); err != nil {
		t.Fatal(err)
	}
	if err := f.Teach(t.Context(), of, "space", []float32{1, 0}, true); err != nil {
		t.Fatal(err)
	}
	if err := f.KeepQuestion(t.Context(), of, schema.LabelledQuestion{Question: "why?"}); err != nil {
		t.Fatal(err)
	}
	if got := left(); got != "0 0 0 0" {
		t.Errorf("after the collection: %s", got)
	}
}
