package matrix

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/evaluate"
	"github.com/sluice-rag/sluice/internal/retrieval/plan"
	"github.com/sluice-rag/sluice/plans"
	"github.com/sluice-rag/sluice/schema"
)

// shipped returns a function that finds the plans that ship.
func shipped(t *testing.T) func(string) (string, error) {
	t.Helper()
	c, err := plan.LoadCatalogue(plans.FS, plans.Default)
	if err != nil {
		t.Fatal(err)
	}
	return func(name string) (string, error) {
		p, err := c.Plan(name)
		return p.Text(), err
	}
}

// TestExamplesCanBeRead: every matrix of the examples is valid, and compares what its page says.
func TestExamplesCanBeRead(t *testing.T) {
	for folder, want := range map[string]map[string]int{
		"papers":     {"sage": 11, "funnelrag": 6, "saki-rag": 12, "chunkrag": 11, "fit-rag": 12},
		"comparison": {"plans": 10, "large": 6, "sage": 4, "funnelrag": 4, "saki": 5, "chunkrag": 7, "fitrag": 5},
	} {
		files, err := filepath.Glob("../../../examples/" + folder + "/*.yaml")
		if err != nil {
			t.Fatal(err)
		}
		rows := map[string]int{}
		for _, file := range files {
			f, err := Read(file)
			if err != nil {
				t.Error(err)
				continue
			}
			all, err := f.Rows(shipped(t))
			if err != nil {
				t.Errorf("%s: %v", file, err)
			}
			rows[f.Name] = len(all)
			if got := f.Dir(f.Datasets[0], "/data"); got != "/data/"+f.Datasets[0].Folder {
				t.Errorf("%s: the first dataset is in %s", file, got)
			}
		}
		if !maps.Equal(rows, want) {
			t.Errorf("%s has files with %v rows, want %v", folder, rows, want)
		}
	}
}

// TestTheMatrixOfTheDocsCanBeRead: the example in docs/evaluation.md, read as if it were in the
// papers' folder.
func TestTheMatrixOfTheDocsCanBeRead(t *testing.T) {
	page, err := os.ReadFile("../../../docs/evaluation.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(page), "```yaml\n")
	text, _, ended := strings.Cut(rest, "```")
	if !found || !ended {
		t.Fatal("the page has no example")
	}
	f, err := parse("../../../examples/papers/docs.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if rows, err := f.Rows(shipped(t)); err != nil || len(rows) != 11 {
		t.Errorf("it has %d rows, %v", len(rows), err)
	}
}

const small = `
name: small
datasets: [one, {folder: two, name: second, split: dev, limit: 5, seed: 3, language: de}]
plans:
  - naive
  - {plan: sage, as: SAGE}
  - name: own
    stages: [dense, gradient]
settings:
  - {}
  - {name: steep, plans: [SAGE, own], set: {gradient.g: 0.7}}
  - {plans: [own], vary: {gradient.min_k: [1, 3], gradient.g: [0.2, 0.3]}}
  - {name: model, plans: [naive], language_model: {model: m, max_tokens: 99}}
metrics: [hit@1]
baseline: SAGE, steep
`

func TestRows(t *testing.T) {
	f, err := parse("/m/small.yaml", []byte(small))
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Datasets) != 2 || f.Datasets[0] != (Dataset{Folder: "one", Name: "one", Split: "test", Seed: 1, Language: "en"}) ||
		f.Datasets[1] != (Dataset{Folder: "two", Name: "second", Split: "dev", Limit: 5, Seed: 3, Language: "de"}) || f.Dir(f.Datasets[0], "") != "/m/one" {
		t.Errorf("datasets are %+v", f.Datasets)
	}
	rows, err := f.Rows(shipped(t))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	byName := map[string]Row{}
	for _, r := range rows {
		names = append(names, r.Name)
		byName[r.Name] = r
	}
	want := []string{"naive", "naive, model", "SAGE", "SAGE, steep", "own", "own, steep", "own, gradient.min_k=1, gradient.g=0.2", "own, gradient.min_k=1, gradient.g=0.3",
		"own, gradient.min_k=3, gradient.g=0.2", "own, gradient.min_k=3, gradient.g=0.3"}
	if !slices.Equal(names, want) {
		t.Fatalf("rows are %q", names)
	}
	if r := byName["naive, model"]; r.Plan != "naive" || r.Model["model"] != "m" || r.Model["max_tokens"] != "99" {
		t.Errorf("another language model: %+v", r)
	}
	gradient := func(name string) map[string]any {
		stages := byName[name].Described.Stages
		return stages[len(stages)-1].Parameters
	}
	if r := byName["SAGE, steep"]; r.Plan != "" || gradient(r.Name)["g"] != 0.7 || gradient("SAGE")["g"] != 0.3 || byName["SAGE"].Plan != "sage" {
		t.Errorf("a changed plan: %+v", r)
	}
	if p := gradient("own, gradient.min_k=3, gradient.g=0.2"); p["g"] != 0.2 || p["min_k"] != 3 {
		t.Errorf("a varied plan has %v", p)
	}
}

// TestWhatIsWrongIsNamed: every error names the field.
func TestWhatIsWrongIsNamed(t *testing.T) {
	const sets, ps = "datasets: [a]\n", "plans: [naive]\n"
	for _, c := range []struct{ text, field string }{
		{"", "matrix"},
		{"[a", "matrix"},
		{"- a", "matrix"},
		{ps, "datasets"},
		{sets, "plans"},
		{sets + ps + "colour: red", "colour"},
		{"datasets: []\n" + ps, "datasets"},
		{"datasets: [{folder: a, limt: 3}]\n" + ps, "datasets[0].limt"},
		{"datasets: [{folder: a, limit: few}]\n" + ps, "datasets[0].limit"},
		{"datasets: [{split: dev}]\n" + ps, "datasets[0].folder"},
		{"datasets: [x/a, y/a]\n" + ps, "datasets[1].name"},
		{sets + ps + "packs: [large, large]", "packs[1]"},
		{sets + ps + "packs: large", "packs"},
		{sets + ps + "risk: 2", "risk"},
		{sets + ps + "answers: maybe", "answers"},
		{sets + ps + "answers: true\njudge: perhaps", "judge"},
		{sets + ps + "judge: true", "judge"},
		{sets + ps + "answers: true\njudge_labels: x.jsonl", "judge_labels"},
		{sets + ps + "answers: true\nmetrics: [f1, correctness]", "metrics[1]"},
		{sets + ps + "prices: {input: 1, out: 2}", "prices.out"},
		{sets + ps + "prices: {input: -1}", "prices"},
		{sets + ps + "parallel: 0", "parallel"},
		{sets + ps + "cutoffs: [3, 0]", "cutoffs[1]"},
		{sets + ps + "metrics: [hit@1, f1]", "metrics[1]"},
		{sets + ps + "metrics: [hit@7]", "metrics[0]"},
		{sets + ps + "metrics: [hit@1, hit@1]", "metrics[1]"},
		{sets + ps + "baseline: other", "baseline"},
		{sets + "plans: [navie]", "plans[0].plan"},
		{sets + "plans: [naive, {plan: naive}]", "plans[1]"},
		{sets + "plans: [{as: x}]", "plans[0]"},
		{sets + "plans: [{plan: naive, file: x.yaml}]", "plans[0]"},
		{sets + "plans: [{name: x, stages: [{dense: {kk: 1}}]}]", "plans[0].stages[0].dense.kk"},
		{sets + "plans: [{name: x, stages: [dense], colour: red}]", "plans[0].colour"},
		{sets + ps + "settings: [{set: {gradient.g: 1}}]", "settings[0].set.gradient.g"},
		{sets + ps + "settings: [{set: {limit.k: many}}]", "settings[0].stages[1].limit.k"},
		{sets + ps + "settings: [{sett: {limit.k: 1}}]", "settings[0].sett"},
		{sets + ps + "settings: [{without: [rewrite]}]", "settings[0].without[0]"},
		{sets + ps + "settings: [{append: [dance]}]", "settings[0].stages[2]"},
		{sets + ps + "settings: [{vary: {limit.k: 3}}]", "settings[0].vary.limit.k"},
		{sets + ps + "settings: [{plans: [navie]}]", "settings[0].plans[0]"},
		{sets + ps + "settings: [{language_model: {api_key: k}}]", "settings[0].language_model.api_key"},
		{sets + ps + "settings: [{}, {set: {limit.k: 3}}]", "settings"},
		{sets + "plans: [{name: x, stages: [{dense: {k: 1000}}, {score: {depth: 500, pieces: 16}}, {score: {depth: 500}}]}]", "plans[0].stages[1].score"},
		{"x: &x [a, a, a, a, a, a, a, a, a, a]\ny: &y [*x, *x, *x, *x, *x, *x, *x, *x, *x, *x]\nz: &z [*y, *y, *y, *y, *y, *y, *y, *y, *y, *y]\n" +
			"v: &v [*z, *z, *z, *z, *z, *z, *z, *z, *z, *z]\nw: [*v, *v, *v, *v, *v, *v, *v, *v, *v, *v]", "matrix"},
	} {
		f, err := parse("m.yaml", []byte(c.text))
		if err == nil {
			_, err = f.Rows(shipped(t))
		}
		var wrong *schema.FieldError
		if !errors.As(err, &wrong) || wrong.Field != c.field {
			t.Errorf("%s: the error is %v, not of %s", c.text, err, c.field)
		}
	}
	if _, err := Read(filepath.Join(t.TempDir(), "none.yaml")); err == nil || !strings.Contains(err.Error(), "none.yaml") {
		t.Errorf("a file that is not there: %v", err)
	}
}

// TestKeptOutlivesTheProgram: kept figures are read again, except failed answers and an incomplete
// line, as long as everything that determines them is the same.
func TestKeptOutlivesTheProgram(t *testing.T) {
	f, err := parse("small.yaml", []byte(small))
	if err != nil {
		t.Fatal(err)
	}
	rows, err := f.Rows(shipped(t))
	if err != nil {
		t.Fatal(err)
	}
	cut, err := schema.Segmentation{}.Complete()
	if err != nil {
		t.Fatal(err)
	}
	cell, err := f.Cell(f.Datasets[0], "corpus", rows[0], cut, "server")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	open := func(c Cell) *CellResults {
		t.Helper()
		k, err := NewFolder(dir).Results(c)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	one, two, three := evaluate.Topic{ID: "1", Text: "Why?"}, evaluate.Topic{ID: "2", Text: "When?"}, evaluate.Topic{ID: "3", Text: "Who?"}
	unjudged, unread := evaluate.Topic{ID: "4", Text: "Whose?"}, evaluate.Topic{ID: "5", Text: "Which?"}
	k := open(cell)
	k.Ingested(4)
	kept := Rows{Of: map[string]*CellResults{"naive": k}}
	for q, failed := range map[*evaluate.Topic]bool{&one: false, &two: true, &three: false} {
		if err := kept.Keep("naive", *q, evaluate.QuestionFigures{Query: q.ID, Metrics: map[string]float64{"hit@1": 0.1}, Answer: &evaluate.QuestionAnswer{Failed: failed}}); err != nil {
			t.Fatal(err)
		}
	}
	for q, of := range map[*evaluate.Topic]evaluate.QuestionJudgement{&unjudged: {Failed: true}, &unread: {Unreadable: true}} {
		if err := kept.Keep("naive", *q, evaluate.QuestionFigures{Query: q.ID, Answer: &evaluate.QuestionAnswer{Judgement: &of}}); err != nil {
			t.Fatal(err)
		}
	}
	if !k.Has(two) || !k.Has(unjudged) {
		t.Error("an answer that failed, or was not judged, is asked for again in the same run")
	}
	if err := k.close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(k.dir, questionsFile)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(text, `{"hash": "unfin`...), 0o600); err != nil {
		t.Fatal(err)
	}
	again := open(cell)
	if got, there := again.find(one); !there || got.Metrics["hit@1"] != 0.1 || again.Has(two) || !again.Has(three) || again.Has(unjudged) || !again.Has(unread) || again.Failed() != 4 {
		t.Errorf("kept are %+v, %d failed", again.known, again.Failed())
	}
	if now, err := os.ReadFile(path); err != nil || string(now) != string(text) {
		t.Errorf("the unfinished line stays: %s, %v", now, err)
	}
	changed := one
	changed.Answers = []string{"because"}
	if again.Has(changed) {
		t.Error("a question with another answer counts as asked")
	}
	for what, change := range map[string]func(*Cell){
		"measures":     func(c *Cell) { c.Measures++ },
		"corpus":       func(c *Cell) { c.Corpus = "other" },
		"language":     func(c *Cell) { c.Language = "de" },
		"segmentation": func(c *Cell) { c.Segmentation = "sentences" },
		"plan":         func(c *Cell) { c.Plan = map[string]any{"stages": []any{"lexical"}} },
		"defaults":     func(c *Cell) { c.Stages = nil },
		"server":       func(c *Cell) { c.Server = "other" },
		"answers":      func(c *Cell) { c.Answers = true },
		"judge":        func(c *Cell) { c.Judge = true },
		"risk":         func(c *Cell) { c.Risk = new(float64) },
		"prices":       func(c *Cell) { c.Prices.Input = 3 },
		"cutoffs":      func(c *Cell) { c.Cutoffs = []int{7} },
	} {
		other := cell
		if change(&other); open(other).Has(one) {
			t.Errorf("with another %s nothing is asked anew", what)
		}
	}
	same := cell
	if same.Dataset, same.Row = "renamed", "renamed"; !open(same).Has(one) {
		t.Error("under another name all is asked anew")
	}
	if err := os.WriteFile(path, []byte("not ours\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := NewFolder(dir).Results(cell); err == nil || !strings.Contains(err.Error(), "line 1") || !strings.Contains(err.Error(), path) {
		t.Errorf("a file of something else: %v", err)
	}
}

// TestRenamedPlansAreTheSame: a plan's name and description do not matter, but its parameters do.
func TestRenamedPlansAreTheSame(t *testing.T) {
	key := func(text string) string {
		t.Helper()
		p, err := plan.Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		c, err := (&File{}).Cell(Dataset{}, "", Row{Text: text, Described: p.Describe()}, schema.Segmentation{}, "")
		if err != nil {
			t.Fatal(err)
		}
		k, err := c.key()
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	a := key("name: a\nstages: [dense]")
	if b := key("# another\nname: b\ndescription: the same\nstages:\n  - dense"); a != b {
		t.Error("a renamed plan is another")
	}
	if b := key("name: a\nstages: [dense: {k: 99}]"); a == b {
		t.Error("a changed plan is the same")
	}
	if b := key("name: a\nstages: [dense]\nanswer: {prompt: short}"); a == b {
		t.Error("a plan with another prompt is the same")
	}
}
