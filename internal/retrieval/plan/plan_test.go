package plan_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/sluice-rag/sluice/internal/retrieval/plan"
	"github.com/sluice-rag/sluice/plans"
	"github.com/sluice-rag/sluice/schema"
)

func TestParsePlanNamesTheWrongField(t *testing.T) {
	for _, c := range []struct{ name, yaml, field, message string }{
		{"empty", "", "plan", "empty"},
		{"not yaml", "a: [", "plan", "YAML"},
		{"a list", "- a", "plan", "fields"},
		{"no name", "stages: [dense]", "name", "missing"},
		{"name is a list", "name: [a]\nstages: [dense]", "name", "text"},
		{"no stages", "name: p", "stages", "at least one"},
		{"stages are none", "name: p\nstages: []", "stages", "at least one"},
		{"unknown field", "name: p\nstagez: [dense]\nstages: [dense]", "stagez", "no such field"},
		{"unknown stage", "name: p\nstages:\n- dense: {}\n- sparse: {k: 1}", "stages[1]", "dense"},
		{"two stages in one", "name: p\nstages:\n- {dense: {}, other: {}}", "stages[0]", "one stage per item"},
		{"unknown parameter", "name: p\nstages:\n- dense: {top: 1}", "stages[0].dense.top", "no such field; there are: k, unit"},
		{"k is text", "name: p\nstages:\n- dense: {k: many}", "stages[0].dense.k", "whole number"},
		{"k is too much", "name: p\nstages:\n- dense: {k: 5001}", "stages[0].dense.k", "1 to 5000"},
		{"k is zero", "name: p\nstages:\n- dense: {k: 0}", "stages[0].dense.k", "1 to 5000"},
		{"unit", "name: p\nstages:\n- lexical: {unit: page}", "stages[0].lexical.unit", "passage, section, document, cluster"},
		{"b", "name: p\nstages:\n- lexical: {b: 1.5}", "stages[0].lexical.b", "from 0 to 1"},
		{"b is not a number", "name: p\nstages:\n- lexical: {b: NaN}", "stages[0].lexical.b", "from 0 to 1"},
		{"k1 and b are zero", "name: p\nstages:\n- lexical: {k1: 0, b: 0}", "stages[0].lexical.k1", "leave b out"},
		{"k1 and b of a component are zero", "name: p\nstages:\n- hybrid: {of: [{lexical: {k1: 0, b: 0.0}}]}", "stages[0].hybrid.of[0].lexical.k1", "leave b out"},
		{"the identity of passages", "name: p\nstages:\n- lexical: {field: identity}", "stages[0].lexical.unit", "must be document"},
		{"k1 of identity", "name: p\nstages:\n- lexical: {unit: document, field: identity, k1: 2}", "stages[0].lexical.k1", "no such field"},
		{"an unknown field of the index", "name: p\nstages:\n- lexical: {field: title}", "stages[0].lexical.field", "text, identity"},
		{"no components", "name: p\nstages:\n- hybrid: {k: 5}", "stages[0].hybrid.of", "1 to 16"},
		{"a component's weight", "name: p\nstages:\n- hybrid: {of: [{lexical: {weight: heavy}}]}", "stages[0].hybrid.of[0].lexical.weight", "a number from"},
		{"a component's field", "name: p\nstages:\n- hybrid: {of: [{dense: {}}, {dense: {unit: section, k: 1}}]}", "stages[0].hybrid.of[1].dense.k", "no such field"},
		{"a component twice", "name: p\nstages:\n- hybrid: {of: [{dense: {}}, {dense: {}}]}", "stages[0].hybrid.of[1].dense", "twice"},
		{"an unknown component", "name: p\nstages:\n- hybrid: {of: [{sparse: {}}]}", "stages[0].hybrid.of[0].sparse", "dense, lexical"},
		{"a component that fits not", "name: p\nstages:\n- hybrid: {unit: document, of: [{dense: {}}, {lexical: {unit: cluster}}]}", "stages[0].hybrid.of[1].lexical.unit", "neither"},
		{"a method", "name: p\nstages:\n- hybrid: {method: sum, of: [dense]}", "stages[0].hybrid.method", "weighted, rrf"},
		{"zoom is first", "name: p\nstages:\n- zoom: {to: section}", "stages[0].zoom", "cannot be first"},
		{"limit is first", "name: p\nstages:\n- limit", "stages[0].limit", "cannot be first"},
		{"dedupe is first", "name: p\nstages:\n- dedupe", "stages[0].dedupe", "cannot be first"},
		{"zoom goes up", "name: p\nstages:\n- dense\n- zoom: {to: section}", "stages[1].zoom.to", "smaller"},
		{"zoom stays", "name: p\nstages:\n- dense\n- zoom", "stages[1].zoom.to", "smaller"},
		{"search goes up", "name: p\nstages:\n- dense\n- lexical: {unit: document}", "stages[1].lexical.unit", "smaller"},
		{"hybrid goes up", "name: p\nstages:\n- dense\n- hybrid: {unit: section, of: [dense]}", "stages[1].hybrid.unit", "smaller"},
		{"clusters hold no documents", "name: p\nstages:\n- lexical: {unit: cluster}\n- zoom: {to: document}", "stages[1].zoom.to", "smaller"},
		{"scores after the selection", "name: p\nstages:\n- dense\n- limit\n- lexical", "stages[2].lexical", "selects"},
		{"a score that no stage gives", "name: p\nstages:\n- dense\n- gradient: {score: hybrid}", "stages[1].gradient.score", "dense.passage"},
		{"a threshold of a score that no stage gives", "name: p\nstages:\n- dense\n- threshold: {score: hybrid}", "stages[1].threshold.score", "dense.passage"},
		{"rewrite comes late", "name: p\nstages: [dense, rewrite]", "stages[1].rewrite", "must be first"},
		{"rewrite alone", "name: p\nstages: [rewrite, score]", "stages[1].score", "begins with"},
		{"rewrite's field", "name: p\nstages: [rewrite: {k: 1}, dense]", "stages[0].rewrite.k", "no such field"},
		{"judge comes first", "name: p\nstages: [judge]", "stages[0].judge", "begins with"},
		{"judge by", "name: p\nstages: [dense, judge: {by: luck}]", "stages[1].judge.by", "critique, relevance, filter"},
		{"judge's least", "name: p\nstages: [dense, judge: {least: 2}]", "stages[1].judge.least", "from 0 to 1"},
		{"a share above one", "name: p\nstages:\n- dense\n- gradient: {g: 1.5}", "stages[1].gradient.g", "from 0 to 1"},
		{"two thresholds", "name: p\nstages:\n- dense\n- threshold: {at: 1, epsilon: 1}", "stages[1].threshold.epsilon", ""},
		{"a threshold first", "name: p\nstages:\n- threshold", "stages[0].threshold", "cannot be first"},
		{"a score of a later stage", "name: p\nstages:\n- dense\n- gradient: {score: lexical.section}\n- limit", "stages[1].gradient.score", "dense.passage"},
		{"a zoom that scores nothing", "name: p\nstages:\n- lexical: {unit: section}\n- zoom\n- gradient: {score: lexical.passage}", "stages[2].gradient.score", "lexical.section"},
		{"proximity comes first", "name: p\nstages: [proximity]", "stages[0].proximity", "nothing"},
		{"proximity reads documents", "name: p\nstages: [lexical: {unit: document}, proximity]", "stages[1].proximity", "documents"},
		{"score comes first", "name: p\nstages: [score]", "stages[0].score", "begins with"},
		{"score by", "name: p\nstages: [dense, score: {by: luck}]", "stages[1].score.by", "relevance, has_answer, llm_prefer, prefer_sum"},
		{"score's depth", "name: p\nstages: [dense, score: {depth: 1001}]", "stages[1].score.depth", "0 to 1000"},
		{"score's weight", "name: p\nstages: [dense, score: {weight: 1.1}]", "stages[1].score.weight", "from 0 to 1"},
		{"score's scale", "name: p\nstages: [dense, score: {normalise: sum}]", "stages[1].score.normalise", "max, minmax, standard, none"},
		{"score's least", "name: p\nstages: [dense, score: {least: high}]", "stages[1].score.least", "a number from"},
		{"score's least is a list", "name: p\nstages: [dense, score: {least: [1]}]", "stages[1].score.least", "a number from"},
		{"score's pieces", "name: p\nstages: [dense, score: {pieces: 65}]", "stages[1].score.pieces", "1 to 64"},
		{"score is optional", "name: p\nstages: [dense, score: {optional: maybe}]", "stages[1].score.optional", "true or false"},
		{"score's field", "name: p\nstages: [dense, score: {k: 4}]", "stages[1].score.k", "no such field"},
		{"judge comes late", "name: p\nstages: [dense, limit, judge]", "stages[2].judge", "selects"},
		{"fuse comes first", "name: p\nstages: [fuse]", "stages[0].fuse", "begins with"},
		{"fuse's tokens", "name: p\nstages: [dense, fuse: {lr: 0}]", "stages[1].fuse.lr", "1 to 512"},
		{"fuse with the question", "name: p\nstages: [dense, fuse: {with_question: 1}]", "stages[1].fuse.with_question", "true or false"},
		{"fuse's keep", "name: p\nstages: [dense, fuse: {keep: -1}]", "stages[1].fuse.keep", "0 to 5000"},
		{"reduce comes first", "name: p\nstages: [reduce]", "stages[0].reduce", "begins with"},
		{"reduce leaves sentences out", "name: p\nstages: [dense, reduce: {sentences: 2, stride: 3}]", "stages[1].reduce.stride", "left out"},
		{"reduce's most", "name: p\nstages: [dense, reduce: {most: 11}]", "stages[1].reduce.most", "1 to 10"},
		{"reduce's probability", "name: p\nstages: [dense, reduce: {enough: 2}]", "stages[1].reduce.enough", "from 0 to 1"},
		{"relate comes first", "name: p\nstages: [relate]", "stages[0].relate", "nothing"},
		{"relate joins sections", "name: p\nstages: [lexical: {unit: section}, relate]", "stages[1].relate", "sections"},
		{"relate's k", "name: p\nstages: [dense, relate: {k: 0}]", "stages[1].relate.k", "1 to 50"},
		{"relate's least", "name: p\nstages: [dense, relate: {least: 1.5}]", "stages[1].relate.least", "from 0 to 1"},
		{"relate twice", "name: p\nstages: [dense, relate, relate]", "stages[2].relate", "two passages"},
		{"a search after relate", "name: p\nstages: [dense, relate, lexical]", "stages[2].lexical", "two passages"},
		{"a hybrid after relate", "name: p\nstages: [dense, relate, score, {hybrid: {of: [dense]}}]", "stages[3].hybrid", "two passages"},
		{"dedupe's depth", "name: p\nstages: [dense, dedupe: {depth: 501}]", "stages[1].dedupe.depth", "from 1 to 500"},
		{"dedupe's cosine", "name: p\nstages: [dense, dedupe: {cosine: calibrate}]", "stages[1].dedupe.cosine", "from 0 to 1"},
		{"k is a list", "name: p\nstages:\n- dense: {k: [1]}", "stages[0].dense.k", "whole number"},
		{"segmentation is a word", "name: p\nsegmentation: sentences\nstages: [dense]", "segmentation", "by: sentences"},
		{"segmentation by nothing", "name: p\nsegmentation: {sentences: 2}\nstages: [dense]", "segmentation.by", "missing"},
		{"segmentation by luck", "name: p\nsegmentation: {by: luck}\nstages: [dense]", "segmentation.by", "segmenter"},
		{"segmentation's threshold", "name: p\nsegmentation: {by: similarity, threshold: high}\nstages: [dense]", "segmentation.threshold", "from 0 to 1"},
		{"segmentation's calibrated threshold", "name: p\nsegmentation: {by: sentences, threshold: calibrated}\nstages: [dense]", "segmentation.calibrated", "similarity"},
		{"another way's setting", "name: p\nsegmentation: {by: sentences, max_characters: 9}\nstages: [dense]", "segmentation.max_characters", "similarity"},
		{"segmentation's field", "name: p\nsegmentation: {by: sentences, words: 9}\nstages: [dense]", "segmentation.words", "no such field"},
		{"feedback is a word", "name: p\nfeedback: always\nstages: [dense, gradient]", "feedback", "least: 9"},
		{"feedback's score", "name: p\nfeedback: {least: 11}\nstages: [dense, gradient]", "feedback.least", "1 to 10"},
		{"feedback's rounds", "name: p\nfeedback: {rounds: 0}\nstages: [dense, gradient]", "feedback.rounds", "1 to 10"},
		{"feedback of another stage", "name: p\nfeedback: {of: dense}\nstages: [dense, gradient]", "feedback.of", "gradient"},
		{"feedback of no stage", "name: p\nfeedback: {least: 9}\nstages: [dense]", "feedback.of", "no such stage"},
		{"feedback's field", "name: p\nfeedback: {fs: 9}\nstages: [dense, gradient]", "feedback.fs", "no such field"},
		{"skipping retrieval without a score", "name: p\nstages: [dense, skip-retrieval]", "stages[1].skip-retrieval.score", "has_answer"},
		{"skipping retrieval first", "name: p\nstages: [skip-retrieval]", "stages[0].skip-retrieval", "cannot be first"},
		{"skipping retrieval by a share", "name: p\nstages: [dense, score, skip-retrieval: {s_n: 2}]", "stages[2].skip-retrieval.s_n", "from 0 to 1"},
		{"skipping retrieval by no neighbour", "name: p\nstages: [dense, score, skip-retrieval: {k: 0}]", "stages[2].skip-retrieval.k", "1 to 1000"},
		{"skipping retrieval by no logit", "name: p\nstages: [dense, score, skip-retrieval: {delta: high}]", "stages[2].skip-retrieval.delta", "a number from"},
		{"answer is a word", "name: p\nanswer: explain\nstages: [dense]", "answer", "prompt: explain"},
		{"answer's prompt", "name: p\nanswer: {prompt: rhyme}\nstages: [dense]", "answer.prompt", "usual, explain, short"},
		{"answer's field", "name: p\nanswer: {style: explain}\nstages: [dense]", "answer.style", "no such field"},
		{"parameters are text", "name: p\nstages:\n- dense: 5", "stages[0].dense", "fields"},
	} {
		_, err := plan.Parse([]byte(c.yaml))
		var field *schema.FieldError
		if !errors.As(err, &field) || field.Field != c.field || !strings.Contains(field.Problem, c.message) {
			t.Errorf("%s: got %v, want field %q and %q", c.name, err, c.field, c.message)
		}
	}
}

func TestParsePlan(t *testing.T) {
	for _, text := range []string{"name: p\nstages: [dense]", "name: p\nstages:\n- dense:", "name: p\ndescription: d\nstages:\n- dense: {k: 100}\n- dense: {}"} {
		p, err := plan.Parse([]byte(text))
		if err != nil || p.Name != "p" || p.Stages()[0].Stage != "dense" {
			t.Errorf("%q: got %+v, %v", text, p, err)
		}
	}
}

func TestTheShippedPlansLoad(t *testing.T) {
	c, err := plan.LoadCatalogue(plans.FS, plans.Default)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"naive", "bm25", "hybrid", "funnel-lite", "funnelrag", "saki", "chunkrag", "sage", "fitrag", "sluice"} {
		if !slices.Contains(c.Names(), name) {
			t.Errorf("plan %s is missing: %v", name, c.Names())
		}
	}
	if p, err := c.Plan(""); err != nil || p.Name != plans.Default {
		t.Errorf("the default plan is %q, %v", p.Name, err)
	}
	_, err = c.Plan("clever")
	var field *schema.FieldError
	if !errors.As(err, &field) || field.Field != "plan" || !strings.Contains(field.Problem, "naive") {
		t.Errorf("an unknown plan gave %v, want a FieldError that lists the plans", err)
	}
}

func TestPlansNameTheSegmentationThatTheyAreMeantFor(t *testing.T) {
	c, err := plan.LoadCatalogue(plans.FS, plans.Default)
	if err != nil {
		t.Fatal(err)
	}
	for plan, wants := range map[string]string{"chunkrag": "similarity,threshold=calibrated,max_characters=500,max_tokens=400",
		"saki": "sentences,sentences=2,max_tokens=400", "sage": "segmenter,coarse_tokens=400", "naive": ""} {
		if got, err := c.Segmentation(plan); err != nil || !strings.HasPrefix(got.String(), wants) || wants == "" && got.By != "" {
			t.Errorf("%s is meant for %q, %v; want %q", plan, got, err, wants)
		}
	}
	if _, err := c.Segmentation("clever"); !errors.Is(err, schema.ErrInvalid) {
		t.Errorf("an unknown plan gives %v", err)
	}
	if described := c.Describe(); !slices.ContainsFunc(described, func(p schema.Plan) bool {
		return p.Name == "saki" && p.Segmentation != nil && p.Segmentation.Sentences == 2
	}) {
		t.Errorf("described as %+v", described)
	}
}

func TestLoadCatalogueRefusesWhatIsWrong(t *testing.T) {
	good := &fstest.MapFile{Data: []byte("name: a\nstages: [dense]")}
	for name, folder := range map[string]fstest.MapFS{
		"a plan named unlike its file": {"b.yaml": good},
		"a missing default":            {"a.yaml": good},
		"a broken plan":                {"d.yaml": {Data: []byte("name: d")}},
	} {
		if _, err := plan.LoadCatalogue(folder, "d"); !errors.Is(err, schema.ErrInvalid) {
			t.Errorf("%s: got %v, want ErrInvalid", name, err)
		}
	}
}

// TestPlansOfOnesOwnAreAdded: they are added to those that ship, and must have other names.
func TestPlansOfOnesOwnAreAdded(t *testing.T) {
	c, err := plan.LoadCatalogue(plans.FS, plans.Default)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Add(fstest.MapFS{"mine.yaml": {Data: []byte("name: mine\nstages: [dense]")}}); err != nil {
		t.Fatal(err)
	}
	if p, err := c.Plan("mine"); err != nil || p.Name != "mine" {
		t.Errorf("got %q, %v", p.Name, err)
	}
	if err := c.Add(fstest.MapFS{"naive.yaml": {Data: []byte("name: naive\nstages: [dense]")}}); !errors.Is(err, schema.ErrInvalid) {
		t.Errorf("a shipped plan's name: got %v, want ErrInvalid", err)
	}
}

// FuzzParsePlan: for any input the result is a plan or an error that names a field.
func FuzzParsePlan(f *testing.F) {
	f.Add("name: p\nstages:\n- dense: {k: 3}")
	f.Add("name: p\nstages:\n- hybrid: {unit: section, of: [{lexical: {unit: document, weight: 2}}, dense]}\n- zoom: {to: passage, per: 2}\n- gradient: {g: 0.1}\n- limit")
	f.Add("name: &a p\nstages: *a")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := plan.Parse([]byte(text))
		var field *schema.FieldError
		if err != nil && (!errors.As(err, &field) || field.Field == "") {
			t.Errorf("got %v, want a FieldError", err)
		}
		if err == nil && len(p.Stages()) == 0 {
			t.Error("a plan without stages was taken")
		}
	})
}
