package e2e

// This file learns what the language model knows and which texts it prefers. The model is scripted:
// it knows the authors of novels but nothing about mills, and reads an answer about mills only in
// texts with certain wording.

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

// fact is a question, with its answer and texts that contain it.
type fact struct {
	question, answer string
	texts            []string
	reads            string // the model finds the answer only in texts that contain this
	known            bool   // the model answers without texts
}

var syllables = []string{"bar", "del", "fin", "gor", "hul", "kem", "lor", "mas", "nor", "pel", "rud", "tas", "vil", "wen"}

// name returns a different word for each i.
func name(i int, ending string) string {
	s := syllables[i%len(syllables)] + syllables[(i/len(syllables)+3*i+5)%len(syllables)] + ending
	return strings.ToUpper(s[:1]) + s[1:]
}

// novel returns a fact about a novel, which the model knows.
func novel(i int) fact {
	title, author := name(i, "iad"), "Anna "+name(i+7, "sen")
	return fact{question: "Who wrote the novel " + title + "?", answer: author, known: true, reads: author, texts: []string{
		fmt.Sprintf("The novel %s was written by %s.", title, author), fmt.Sprintf("%s wrote the novel %s in one winter.", author, title),
		fmt.Sprintf("It was %s who wrote %s, a novel in three parts.", author, title), fmt.Sprintf("Readers know %s as the author who wrote the novel %s.", author, title)}}
}

// mill returns a fact about a mill, which only the documents have.
func mill(i int) fact {
	town, river := name(i, "ton"), name(i+5, "ach")
	reads := fmt.Sprintf("At the mill of %s the wheel turns in the %s.", town, river)
	return fact{question: "On which river does the mill of " + town + " stand?", answer: river, reads: reads,
		texts: []string{fmt.Sprintf("The mill of %s stands on the river %s.", town, river), reads}}
}

// student is the scripted model.
type student struct {
	*httptest.Server
	facts []fact
	mu    sync.Mutex
	calls map[string]int // by task
}

var asked = regexp.MustCompile(`(?m)^(?:Question: )?(Who wrote.*\?|On which river.*\?)$`)

func newStudent(t *testing.T, facts []fact) *student {
	s := &student{facts: facts, calls: map[string]int{}}
	s.Server = httptest.NewServer(http.HandlerFunc(s.complete))
	t.Cleanup(s.Close)
	return s
}

func (s *student) complete(w http.ResponseWriter, r *http.Request) {
	var request struct {
		Messages []struct{ Content string } `json:"messages"`
	}
	_ = json.NewDecoder(r.Body).Decode(&request)
	system, user := request.Messages[0].Content, request.Messages[len(request.Messages)-1].Content
	task := "answer"
	if strings.Contains(system, `"background"`) {
		task = "background"
	}
	said := map[string]any{"answer": "", "background": "", "citations": []any{}}
	if match := asked.FindStringSubmatch(user); match != nil {
		for _, f := range s.facts {
			if f.question != match[1] {
				continue
			}
			switch {
			case task == "background" && f.known:
				said["background"], said["answer"] = "It is a novel that many have read.", "It was written by "+f.answer+"."
			case task == "answer":
				for _, text := range f.texts {
					if strings.Contains(text, f.reads) && strings.Contains(user, text) {
						said["answer"], said["citations"] = f.answer, []any{map[string]any{"sentence": 1, "passage": 1, "quote": text}}
						break
					}
				}
			}
		}
	}
	s.mu.Lock()
	s.calls[task]++
	s.mu.Unlock()
	content, _ := json.Marshal(said)
	in := len(strings.Fields(system)) + len(strings.Fields(user))
	_ = complete(w, "student", string(content), int64(in), 20)
}

func (s *student) count(task string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[task]
}

// trainedAs has the fields of `sluice train labels --json` that are tested here.
type trainedAs struct {
	Model                                                                string
	Questions, Done, Known, Asked, Texts, Preferred, Calls, Left, Unseen int
	HaveAnswer                                                           int `json:"have_answer"`
	LeftTokens                                                           int `json:"left_tokens"`
	Usage                                                                schema.Usage
	Stopped, Unlearnt                                                    string
	Failures                                                             []string
	Preference                                                           *schema.Preference
}

// questionLines returns facts as JSON lines.
func questionLines(facts []fact) string {
	var out strings.Builder
	for _, f := range facts {
		line, _ := json.Marshal(map[string]any{"question": f.question, "answer": []string{f.answer}})
		out.Write(append(line, '\n'))
	}
	return out.String()
}

// testPreferences labels questions in several runs without repeating calls of earlier runs, learns
// from the labels, and measures the effect.
func testPreferences(t *testing.T, p programs) {
	const novels, mills, texts = 12, 24, 6
	var train, ask []fact
	for i := range novels {
		train, ask = append(train, novel(i)), append(ask, novel(100+i))
	}
	for i := range mills {
		train = append(train, mill(i))
		if i < novels {
			ask = append(ask, mill(100+i))
		}
	}
	model := newStudent(t, append(append([]fact{}, train...), ask...))
	s := p.up(t, localtest.Dir(t), "SLUICE_LLM_PROVIDER=openai", "SLUICE_LLM_BASE_URL="+model.URL+"/v1/", "SLUICE_LLM_MODEL=student", "SLUICE_LLM_PRICE=1/2",
		"SLUICE_SHADOW_SHARE=0", "SLUICE_LLM_CACHE_AGE=0")
	files := map[string]string{"questions.jsonl": questionLines(train), "bad.jsonl": `{"question": "Who?", "answer": ["A"]}` + "\n" + `{"question": "Who?", "answer": 7}`, "bad.csv": "query,answer\na,b\n"}
	folder := write(t, files)
	docs := map[string]string{}
	for i, f := range train {
		for j, text := range f.texts {
			docs[fmt.Sprintf("d%d-%d.txt", i, j)] = text
		}
	}
	s.sluice(t, "ingest", write(t, docs), "-c", "town", "--wait").ok(t)
	file := filepath.Join(folder, "questions.jsonl")
	labels := func(args ...string) trainedAs {
		t.Helper()
		return into[trainedAs](t, s.sluice(t, append([]string{"train", "labels", "-c", "town", "--questions", file, "--texts", fmt.Sprint(texts), "--json"}, args...)...).ok(t))
	}
	s.sluice(t, "train", "labels", "-c", "town", "--questions", filepath.Join(folder, "bad.jsonl")).fails(t, "bad.jsonl:2", "answer")
	s.sluice(t, "questions", "import", filepath.Join(folder, "bad.csv"), "-c", "town").fails(t, "bad.csv:1", "query", "question and answer")
	s.sluice(t, "questions", "import", file, "-c", "nowhere").fails(t, "nowhere")

	// A dry run makes no calls, and a run respects its limits.
	dry := labels("--dry-run")
	if most := (novels + mills) * (1 + texts); dry.Left != most || dry.LeftTokens == 0 || dry.Calls != 0 || model.count("background") != 0 || dry.Preference != nil {
		t.Fatalf("a dry run says %+v", dry)
	}
	few := labels("--calls", "10")
	if few.Calls != 10 || model.count("background")+model.count("answer") != 10 || few.Unseen == 0 || few.Preference != nil || few.Unlearnt == "" {
		t.Errorf("a budget of 10 calls: %+v", few)
	}
	price := labels("--cost", "0.002", "--parallel", "1")
	if price.Usage.Cost < 0.002 || price.Usage.Cost > 0.003 || price.Left+price.Unseen == 0 {
		t.Errorf("a budget of $0.002: %+v", price)
	}
	explained := func() (first, why string) {
		t.Helper()
		found, err := s.find(t.Context(), api.Query{Collection: "town", Query: train[novels].question, Plan: "fitrag", Explain: true})
		if err != nil || len(found.Passages) == 0 {
			t.Fatalf("found %v, %v", found, err)
		}
		for _, step := range found.Trace {
			why += step.Why + "\n"
		}
		return found.Passages[0].Text, why
	}
	if _, why := explained(); !strings.Contains(why, "llm_prefer: the pack's own reader's") || strings.Contains(why, "learnt from") {
		t.Errorf("before anything was learnt it says %s", why)
	}

	// Every remaining call is made once. For novels no text is tried, because the model knows their
	// answers without texts.
	all := labels()
	made := few.Calls + price.Calls + all.Calls
	if want := novels + mills*(1+texts); made != want || all.Left != 0 || all.Done != novels+mills || all.Known != novels || all.Preferred < mills*3/4 || all.Preferred > mills {
		t.Errorf("%d calls in all, want %d: %+v", made, want, all)
	}
	if n := model.count("background") + model.count("answer"); n != made {
		t.Errorf("the model was asked %d times, and %d calls are told of", n, made)
	}
	learnt := all.Preference
	if learnt == nil || !learnt.Kept || learnt.Area < learnt.OwnArea || learnt.Questions != novels+mills || learnt.Model != "openai/student" {
		t.Fatalf("learnt %+v: %+v", learnt, all)
	}
	t.Logf("of %d texts, area under the ROC curve %.3f, the pack's own reader's %.3f, w %.2f", learnt.Texts, learnt.Area, learnt.OwnArea, learnt.Weight)
	if again := labels(); again.Calls != 0 || again.Preference == nil {
		t.Errorf("once more: %+v", again)
	}
	first, why := explained()
	if !strings.Contains(why, fmt.Sprintf("llm_prefer: openai/student's, learnt from %d questions", novels+mills)) {
		t.Errorf("it says %s", why)
	}
	t.Logf("first of what fitrag finds: %q", first)
	s.sluice(t, "train", "list", "-c", "town").ok(t).has(t, "openai/student", "36")

	testSkipping(t, s, train, ask)

	s.sluice(t, "train", "forget", "-c", "town").ok(t)
	if _, why := explained(); strings.Contains(why, "learnt from") {
		t.Errorf("after it was forgotten it says %s", why)
	}
	s.checkStored(t)
	s.stop(t)
}

// testSkipping measures the effect of imported questions: how many questions are answered without
// retrieval, how many answers are right, and how many tokens are sent.
func testSkipping(t *testing.T, s *server, train, ask []fact) {
	var corpus, queries strings.Builder
	for i, f := range ask {
		for j, text := range f.texts {
			line, _ := json.Marshal(map[string]any{"_id": fmt.Sprintf("d%d-%d", i, j), "text": text})
			corpus.Write(append(line, '\n'))
		}
		line, _ := json.Marshal(map[string]any{"_id": fmt.Sprint(i), "text": f.question, "metadata": map[string]any{"answers": []string{f.answer}}})
		queries.Write(append(line, '\n'))
	}
	base := write(t, map[string]string{"asked/corpus.jsonl": corpus.String(), "asked/queries.jsonl": queries.String(), "known.csv": "question,answers\n\"" + train[0].question + "\",\"[\"\"" + train[0].answer + "\"\"]\"\n"})
	measure := func() map[string]float64 {
		t.Helper()
		got := into[evaluated](t, s.sluice(t, "eval", filepath.Join(base, "asked"), "--plan", "fitrag", "--answers", "--keep", "--json", "-").ok(t))
		return got.Plans[0].Metrics
	}
	s.sluice(t, "train", "forget", "-c", "town").ok(t)
	before := measure()
	imported := into[trainedAs](t, s.sluice(t, "questions", "import", filepath.Join(base, "known.csv"), "-c", "town", "--json").ok(t))
	if imported.Known != 1 || imported.Calls != 1 || imported.Texts != 0 {
		t.Errorf("one question from CSV: %+v", imported)
	}
	all := into[trainedAs](t, s.sluice(t, "questions", "import", filepath.Join(write(t, map[string]string{"all.jsonl": questionLines(train)}), "all.jsonl"), "-c", "town", "--json").ok(t))
	if all.Done != len(train) || all.Calls != len(train)-1 {
		t.Errorf("imported %+v", all)
	}
	after := measure()
	t.Logf("fitrag on %d questions, half of which the model knows the like of: before, skipped %.3f, contains %.3f, %.0f tokens in; after, %.3f, %.3f, %.0f",
		len(ask), before["skipped"], before["contains"], before["input_tokens"], after["skipped"], after["contains"], after["input_tokens"])
	if before["skipped"] != 0 || after["skipped"] < 0.4 || after["skipped"] > 0.5 || after["contains"] < before["contains"] || after["input_tokens"] >= before["input_tokens"] {
		t.Errorf("before %v, after %v", before, after)
	}
}
