//go:build cgo

package queryworker

// The sources of the questions of a choice, and repeated choices, with real parts.

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"

	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/evaluate/planchoice"
	"github.com/sluice-rag/sluice/internal/store/choices"
	"github.com/sluice-rag/sluice/internal/waittest"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// choiceQuestions returns the questions of a choice from one source.
func (w *world) choiceQuestions(choice schema.PlanChoice, from schema.QuestionSource) (out []schema.ChoiceQuestion) {
	w.t.Helper()
	all, err := w.store.ShownQuestions(w.context(), w.principal, w.collection, choice.ID, 0, 1000)
	w.ok(err)
	for _, q := range all {
		if q.Source == from {
			out = append(out, q)
		}
	}
	return out
}

// TestChoiceAsksImportedQuestions: questions imported to learn what the language model knows are
// asked after the labelled questions of the choice, if a passage answers them.
func TestChoiceAsksImportedQuestions(t *testing.T) {
	w := newWorld(t)
	w.handbook()
	w.critic(fiveDays)
	w.gateway()
	made := w.worker(nil)
	w.run(made.service())
	label := func(q schema.LabelledQuestion, texts, calls int) {
		t.Helper()
		reply := made.label(w.context(), nil, wire.LabelRequest{Envelope: wire.Header(), Principal: w.principal, Collection: w.collection, Question: q.Question, Answers: q.Answers, Texts: texts, Calls: calls})
		if reply.Error != nil || calls > 0 && reply.Labelled.Known == nil {
			t.Fatalf("%q: %+v", q.Question, reply)
		}
	}
	imported := []schema.LabelledQuestion{{Question: "How often does a KD-40 get a new membrane?", Answers: []string{"every year", "8,000 hours"}}, {Question: "How far ahead must leave be asked for?", Answers: []string{"two weeks"}}}
	for _, q := range imported {
		label(q, 0, 1)
	}
	label(schema.LabelledQuestion{Question: "Who wrote the Iliad?", Answers: []string{"Homer"}}, 0, 1)                 // no document answers it
	label(schema.LabelledQuestion{Question: "What is a chair of the board paid?", Answers: []string{"240,000"}}, 0, 1) // this key may not see the document
	label(schema.LabelledQuestion{Question: known[2].Question, Answers: []string{"the line manager"}}, 0, 1)           // also a labelled question of the choice
	label(schema.LabelledQuestion{Question: "How much is a kilometre?", Answers: []string{"30 cents"}}, 0, 0)          // a dry run
	label(schema.LabelledQuestion{Question: "What is the allowance for meals?", Answers: []string{"28 euros"}}, 1, 1)  // for training

	got := w.chosen(w.choose(choices.NewChoice{Request: schema.NewPlanChoice{Questions: known[:3], Limit: 20}}).ID)
	if got.State != schema.ChoiceDone || !slices.ContainsFunc(got.Notes, func(n string) bool { return strings.Contains(n, "2 imported questions are left out") }) {
		t.Fatalf("got %+v", got)
	}
	asked := map[string]schema.ChoiceQuestion{}
	for _, q := range w.choiceQuestions(got, schema.QuestionLabelled) {
		asked[q.Question] = q
	}
	if len(asked) != len(imported)+3 {
		t.Errorf("it asks %+v", asked)
	}
	for _, q := range imported {
		if got := asked[q.Question]; !slices.Equal(got.Answers, q.Answers) || len(got.Documents) != 0 || got.Number <= 3 {
			t.Errorf("%q became %+v", q.Question, got)
		}
	}
}

// TestChoiceAsksRatedQuestions: a question whose answer more keys rated up than down is asked with
// every plan. The documents that the answer cites are right.
func TestChoiceAsksRatedQuestions(t *testing.T) {
	w := newWorld(t)
	w.handbook()
	w.startAll()
	answered := func(question string) uuid.UUID {
		t.Helper()
		in := w.ask(w.context(), question, true)
		if job := w.await(in.Question, schema.JobAnswered); !job.Result.Supported || len(job.Result.Citations) == 0 {
			t.Fatalf("%q was answered by %+v", question, job.Result)
		}
		return in.Question
	}
	rate := func(question uuid.UUID, opinions ...schema.Opinion) {
		t.Helper()
		for _, o := range opinions {
			by := w.principal
			by.Key = schema.NewID()
			by.Scopes = []schema.Scope{schema.ScopeAdmin}
			_, err := w.store.Rate(w.context(), by, question, o, "")
			w.ok(err)
		}
	}
	const torque = "To what torque are the head bolts of a KD-40 with a plastic head tightened?"
	const meals = "What is the daily allowance for meals?"
	rate(answered(carryOver), schema.ThumbsUp)
	rate(answered(torque), schema.ThumbsDown, schema.ThumbsUp, schema.ThumbsUp)
	rate(answered(meals), schema.ThumbsUp, schema.ThumbsDown)

	got := w.chosen(w.choose(choices.NewChoice{Request: schema.NewPlanChoice{Questions: known[:3], Limit: 5}}).ID)
	if got.State != schema.ChoiceDone || !slices.Contains(got.Sources, schema.SourceCount{Source: schema.QuestionRated, Questions: 2}) {
		t.Fatalf("got %+v", got)
	}
	want := map[string]struct{ document, answer string }{carryOver: {"leave.md", "five days"}, torque: {"pumps.md", "4.5 Nm"}}
	for _, q := range w.choiceQuestions(got, schema.QuestionRated) {
		x, ok := want[q.Question]
		if !ok || !slices.Equal(q.Documents, []string{x.document}) || len(q.Answers) != 1 || !strings.Contains(q.Answers[0], x.answer) || !strings.Contains(q.Evidence, x.answer) {
			t.Errorf("got %+v", q)
		}
		delete(want, q.Question)
	}
	if len(want) != 0 {
		t.Errorf("it doesn't ask %v", want)
	}
}

// writer starts a server with the chat completions API that writes questions about excerpts from a
// script: the question of the first script line whose sentence is in the excerpt.
func (w *world) writer(script [][2]string) *atomic.Int32 {
	w.t.Helper()
	asked := &atomic.Int32{}
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		var in struct {
			Messages []struct{ Content string } `json:"messages"`
		}
		_ = json.NewDecoder(r.Body).Decode(&in)
		if !strings.Contains(in.Messages[0].Content, "write questions") {
			http.Error(rw, "no question was asked for", http.StatusBadRequest)
			return
		}
		asked.Add(1)
		question := "Who painted the ceiling of the Sistine Chapel?" // no document answers it
		for _, line := range script {
			if strings.Contains(in.Messages[1].Content, line[0]) {
				question = line[1]
				break
			}
		}
		content, _ := json.Marshal(map[string]string{"question": question})
		rw.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(rw).Encode(map[string]any{"id": "1", "object": "chat.completion", "model": "m",
			"choices": []any{map[string]any{"index": 0, "finish_reason": "stop", "message": map[string]any{"role": "assistant", "content": string(content)}}},
			"usage":   map[string]any{"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}})
	}))
	w.t.Cleanup(s.Close)
	w.llm = config.LLM{LLMProvider: "openai", LLMBaseURL: s.URL + "/v1", LLMModel: "scripted", LLMTimeout: waittest.Left(w.t)}
	return asked
}

// TestChoiceAsksWrittenQuestions: a question of the language model is used only if the reader finds
// its answer in the excerpt.
func TestChoiceAsksWrittenQuestions(t *testing.T) {
	w := newWorld(t)
	w.handbook()
	// An excerpt starts at a random sentence. The documents are short, so every excerpt has their
	// last sentences.
	script := [][2]string{
		{"The membrane is changed every 8,000 hours of operation.", "After how many hours does a dosing pump need a new membrane?"},
		{"Private cars are paid 30 cents a kilometre.", "How much is reimbursed for driving one's own car?"},
	}
	asked := w.writer(script)
	w.gateway()
	w.run(w.worker(nil).service())
	got := w.chosen(w.choose(choices.NewChoice{Request: schema.NewPlanChoice{Questions: known[:3], Limit: 12}}).ID)
	if got.State != schema.ChoiceDone || asked.Load() == 0 {
		t.Fatalf("%d questions were asked for: %+v", asked.Load(), got)
	}
	written := w.choiceQuestions(got, schema.QuestionWritten)
	if len(written) == 0 {
		t.Errorf("no written question was kept: %+v, %q", got.Sources, got.Notes)
	}
	for _, q := range written {
		line := slices.IndexFunc(script, func(x [2]string) bool { return x[1] == q.Question })
		if line < 0 || len(q.Documents) != 1 || len(q.Answers) != 1 || !strings.Contains(q.Evidence, q.Answers[0]) {
			t.Errorf("kept %+v", q)
		}
	}
}

// TestExtractiveIsNotAskedToWrite: the provider without a language model cannot write questions. It
// is not asked for them, and rules make the questions.
func TestExtractiveIsNotAskedToWrite(t *testing.T) {
	w := newWorld(t)
	for i, place := range strings.Fields("Grindle Marlow Tarn Oxley Brandwick Selby") {
		w.add(place+".txt", place, fmt.Sprintf("The windmill of %s was built in %d. It stands on a hill above the village. The millers' guild of %s meets on the first Monday of the month.", place, 1700+17*i, place))
	}
	w.gateway()
	var asked atomic.Int32
	sub, err := w.nats.Subscribe(wire.LLMSubject, func(m *nats.Msg) {
		if strings.Contains(string(m.Data), `"ask"`) {
			asked.Add(1)
		}
	})
	w.ok(err)
	defer sub.Unsubscribe() //nolint:errcheck // the connection closes
	w.run(w.worker(nil).service())
	got := w.chosen(w.choose(choices.NewChoice{Request: schema.NewPlanChoice{Limit: 6}}).ID)
	w.ok(w.nats.Flush())
	if got.State != schema.ChoiceDone || len(got.Sources) != 1 || got.Sources[0].Source != schema.QuestionMade {
		t.Errorf("got %+v", got)
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("it was asked %d times for a question", n)
	}
}

// onePassagePlan is a plan that finds one passage.
const onePassagePlan = "name: short-sighted\nstages:\n  - lexical: {unit: passage, k: 1}\n"

// addGateDocuments adds documents about gates, and returns questions about them. For each there is
// another document that has more of the question's words but not the answer.
func (w *world) addGateDocuments() (questions []schema.LabelledQuestion) {
	w.t.Helper()
	for _, place := range strings.Fields("Grindle Marlow Tarn Oxley Brandwick Selby Hexton Yarrow Quorn") {
		w.add(place+"-gate.md", place, fmt.Sprintf("Visitors come from far away. In spring of that year the northern gate near %s, which had been rebuilt of oak after a fire, was painted crimson by two brothers.", place))
		w.add(place+"-guide.md", place, fmt.Sprintf("Colour of the gate, %s. The colour of the gate of %s: gate, colour, %s.", place, place, place))
		for _, question := range []string{"What colour is the gate of %s?", "Which colour has the gate of %s?", "The gate of %s is of what colour?", "Say the colour of the gate of %s."} {
			questions = append(questions, schema.LabelledQuestion{Question: fmt.Sprintf(question, place), Documents: []string{place + "-gate.md"}, Answers: []string{"crimson"}})
		}
	}
	return questions
}

// TestRepetitionTellsWebhooksOfABetterPlan: a repeated choice finds a plan that is surely better
// than the collection's, and sends webhooks. The first choice, for which a person waits, does not.
func TestRepetitionTellsWebhooksOfABetterPlan(t *testing.T) {
	w := newWorld(t)
	asked := w.addGateDocuments()
	bodies := make(chan string, 8)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies <- string(body)
	}))
	defer receiver.Close()
	hook, err := w.store.CreateWebhook(w.context(), w.principal,
		schema.NewWebhook{URL: receiver.URL, Kinds: []string{schema.WebhookPlanBetter}}, []byte("a secret of thirty-two bytes or so"))
	w.ok(err)
	w.settings.WebhookAllowPrivate = []string{"127.0.0.0/8"}
	w.run(w.worker(nil).service())

	// The collection names no plan, so it runs the server's default. Here, a plan with the
	// default's name that finds little replaces it.
	current := planchoice.PlanText{Name: "sluice", Text: strings.Replace(onePassagePlan, "short-sighted", "sluice", 1)}
	made := w.choose(choices.NewChoice{Plans: []planchoice.PlanText{current, {Name: "bm25"}}, Current: "sluice", Request: schema.NewPlanChoice{Questions: asked, Limit: len(asked), Every: 30}})
	first := w.chosen(made.ID)
	if first.State != schema.ChoiceDone || !first.Result.Sure || first.Result.Plan != "bm25" || !first.Result.Better {
		t.Fatalf("the choice is %+v", first)
	}
	if sent, _, err := w.store.WebhookDeliveries(w.context(), w.principal, hook.ID, "", schema.PageQuery{}); err != nil || len(sent) != 0 {
		t.Errorf("of the first choice webhooks hear %+v, %v", sent, err)
	}

	w.ok(w.store.AsTenant(w.context(), w.principal.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE plan_choices SET recheck_at = now() - interval '1 minute' WHERE recheck_at IS NOT NULL`)
		return err
	}))
	var again schema.PlanChoice
	waittest.Until(t, func() string {
		all, _, err := w.store.Choices(w.context(), w.principal, w.collection, schema.PageQuery{})
		w.ok(err)
		if again = all[0]; len(all) != 2 || !again.State.Final() {
			return fmt.Sprintf("there are %+v", all)
		}
		return ""
	})
	if again.Recheck != 1 || !again.Result.Sure || !again.Result.Better {
		t.Fatalf("the repetition is %+v", again)
	}
	var event struct {
		Type string
		Data struct {
			Tenant  uuid.UUID `json:"tenant_id"`
			Choice  uuid.UUID `json:"choice_id"`
			Plan    string
			Current string `json:"current_plan"`
			Link    string
		}
	}
	select {
	case body := <-bodies:
		w.ok(json.Unmarshal([]byte(body), &event))
	case <-w.context().Done():
		t.Fatal("no webhook heard of the better plan")
	}
	if event.Type != schema.WebhookPlanBetter || event.Data.Choice != again.ID || event.Data.Plan != "bm25" || event.Data.Current != "sluice" ||
		!strings.HasSuffix(event.Data.Link, "/plan-choices/"+again.ID.String()) {
		t.Errorf("it heard %+v", event)
	}
	c, err := w.store.Collection(w.context(), w.principal, w.collection.String())
	w.ok(err)
	if c.Plan != "" {
		t.Errorf("%q was applied by itself", c.Plan)
	}
}

// TestChoiceKeepsNoQuestionFromADeletedDocument: a document that is deleted while questions are
// gathered leaves none behind.
func TestChoiceKeepsNoQuestionFromADeletedDocument(t *testing.T) {
	w := newWorld(t)
	kept := w.add("kept.md", "Leave", "Leave is requested two weeks ahead.")
	gone := w.add("gone.md", "Pumps", "The bolts are tightened to 7 Nm.")
	choice := w.choose(choices.NewChoice{})
	in := wire.PlanChoice{Tenant: w.principal.Tenant, Choice: choice.ID}
	_, err := w.store.BeginChoice(w.context(), in)
	w.ok(err)
	by := w.principal
	by.Scopes = []schema.Scope{schema.ScopeAdmin, schema.ScopeIngest}
	w.ok(w.store.DeleteDocument(w.context(), by, gone))
	gathered := func(number int, from schema.QuestionSource, documents ...uuid.UUID) planchoice.Gathered {
		question := schema.ChoiceQuestion{Number: number, Source: from}
		question.Question = fmt.Sprint("question ", number)
		return planchoice.Gathered{ChoiceQuestion: question, DocumentIDs: documents}
	}
	w.ok(w.store.SaveQuestions(w.context(), in, []planchoice.Gathered{
		gathered(1, schema.QuestionLabelled), gathered(2, schema.QuestionMade, gone), gathered(3, schema.QuestionMade, kept),
		gathered(4, schema.QuestionRated, kept, gone),
	}, nil))
	all, err := w.store.ShownQuestions(w.context(), w.principal, w.collection, choice.ID, 0, 10)
	w.ok(err)
	var numbers []int
	for _, q := range all {
		numbers = append(numbers, q.Number)
	}
	if !slices.Equal(numbers, []int{1, 3}) {
		t.Errorf("it keeps questions %v", numbers)
	}
	task, err := w.store.BeginChoice(w.context(), in)
	w.ok(err)
	want := []schema.SourceCount{{Source: schema.QuestionLabelled, Questions: 1}, {Source: schema.QuestionMade, Questions: 1}}
	if task.Questions != 2 || !slices.Equal(task.Sources, want) {
		t.Errorf("it counts %d questions, %v", task.Questions, task.Sources)
	}
}
