package answer_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/question/answer"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// world scripts everything that answering depends on: one section whose passages are its words, of
// which min_k are selected, a language model that quotes the last passage that it gets, and
// judgements.
type world struct {
	words    []string
	feedback []wire.Feedback // by round; if there is none, judging fails
	rounds   int             // of the plan; 0: no judging
	minK     int
	skipped  bool
	fail     map[string]error // errors by task and round: "answer 2"; "select"
	slow     string           // the call that lasts until its deadline
	reads    float64          // confidence of the answering provider extractive; 0: another provider answers
	refuses  bool             // the answering provider finds no answer
	judges   string           // the provider that judges

	retrievals map[int]answer.Retrieval
	replies    map[wire.Step]wire.LLMReply
	stages     []string
	asked      []string // calls, such as "answer 1"
	saved      *schema.Answer
	sampled    int
	failed     *schema.Reason
}

var sectionID, versionID = uuid.New(), uuid.New()

func (w *world) text() string { return strings.Join(w.words, " ") }

func (w *world) selection(minK int) answer.Retrieval {
	out := answer.Retrieval{MinK: minK, Skipped: w.skipped, Trace: []schema.StageReport{{Stage: "gradient", Why: fmt.Sprint(minK)}}}
	if w.skipped {
		return out
	}
	for _, word := range w.words[:min(minK, len(w.words))] {
		at := strings.Index(w.text(), word)
		out.Candidates = append(out.Candidates, schema.Candidate{ExternalID: "d", Text: word, Tokens: 1,
			Spans: []schema.Span{{Version: versionID, Section: sectionID, Start: at, End: at + len(word)}}})
	}
	return out
}

func (w *world) Origin(context.Context, wire.SearchQuery) schema.Origin {
	return schema.Origin{PlanSHA256: "00", Pack: "pack"}
}

func (w *world) Check(wire.SearchQuery) (answer.PlanTraits, error) {
	if w.rounds == 0 {
		return answer.PlanTraits{Name: "p"}, nil
	}
	return answer.PlanTraits{Name: "p", Feedback: &answer.FeedbackRule{Least: 9, Rounds: w.rounds}}, nil
}

func (w *world) Retrieve(context.Context, wire.SearchQuery) (answer.Retrieval, error) {
	out := w.selection(w.minK)
	out.Pool = []byte(`"all"`)
	return out, nil
}

func (w *world) Select(_ context.Context, _ wire.SearchQuery, pool []byte, minK int) (answer.Retrieval, error) {
	if string(pool) != `"all"` {
		return answer.Retrieval{}, errors.New("what is this pool")
	}
	w.asked = append(w.asked, "select")
	return w.selection(minK), w.fail["select"]
}

func (w *world) Complete(ctx context.Context, r wire.LLMRequest) (wire.LLMReply, error) {
	if kept, ok := w.replies[r.Step]; ok {
		return kept, nil
	}
	if r.Task == wire.TaskFilter || r.Task == wire.TaskRead { // these check citations; they are not scripted
		return wire.LLMReply{}, schema.ErrUnavailable
	}
	call := fmt.Sprintf("%s %d", r.Task, r.Step.Round)
	w.asked = append(w.asked, call)
	if call == w.slow {
		<-ctx.Done()
		return wire.LLMReply{}, ctx.Err()
	}
	if err := w.fail[call]; err != nil {
		return wire.LLMReply{}, err
	}
	reply := wire.LLMReply{Usage: schema.Usage{Provider: "scripted", InputTokens: 10, OutputTokens: 1, Cost: 0.5}}
	switch r.Task {
	case wire.TaskFeedback:
		if w.judges != "" {
			reply.Usage.Provider = w.judges
		}
		if r.Confidence != nil {
			w.asked[len(w.asked)-1] += fmt.Sprintf(" sure by %g", *r.Confidence)
		}
		reply.Feedback = &w.feedback[r.Step.Round-1]
	case wire.TaskBackground:
		reply.Text = "From what I know."
	default:
		last := len(r.Passages) - 1
		reply.Text, reply.Supported = r.Passages[last].Text, true
		reply.Quotes = []wire.Quote{{Passage: last, End: len(reply.Text)}}
		if w.reads > 0 {
			reply.Usage.Provider = "extractive"
			reply.Quotes[0].Answer = wire.QuoteAnswer{End: len(reply.Text), Confidence: w.reads}
		}
		if w.refuses {
			reply.Usage.Provider = "extractive"
			reply.Text, reply.Supported, reply.Quotes = schema.NoAnswer, false, nil
		}
	}
	w.replies[r.Step] = reply
	return reply, nil
}

func (w *world) Begin(ctx context.Context, in wire.QuestionInput) (answer.Question, error) {
	return w.Question(ctx, in)
}

func (w *world) Question(context.Context, wire.QuestionInput) (answer.Question, error) {
	return answer.Question{Query: wire.SearchQuery{Query: schema.Query{Text: "q"}}, State: schema.JobRunning}, nil
}

func (w *world) SetStage(_ context.Context, _ wire.QuestionInput, stage string) error {
	w.stages = append(w.stages, stage)
	return nil
}

func (w *world) SaveRetrieval(_ context.Context, _ wire.QuestionInput, round int, r answer.Retrieval) (answer.Retrieval, error) {
	if _, ok := w.retrievals[round]; !ok {
		w.retrievals[round] = r
	}
	return w.retrievals[round], nil
}

func (w *world) Retrieval(_ context.Context, _ wire.QuestionInput, round int) (answer.Retrieval, error) {
	r, ok := w.retrievals[round]
	if !ok {
		return r, schema.ErrNotFound
	}
	return r, nil
}

func (w *world) SaveVerdict(_ context.Context, _ wire.QuestionInput, round int, v answer.Verdict) (answer.Verdict, error) {
	r := w.retrievals[round]
	if r.Verdict == nil {
		r.Verdict = &v
	}
	w.retrievals[round] = r
	return *r.Verdict, nil
}

func (w *world) Sample(context.Context, wire.QuestionInput) error {
	w.sampled++
	return nil
}

func (w *world) Reply(_ context.Context, _ uuid.UUID, s wire.Step) (wire.LLMReply, error) {
	r, ok := w.replies[s]
	if !ok {
		return r, schema.ErrNotFound
	}
	return r, nil
}

// Spent adds up all calls; those for filtering count as Sluice's own models.
func (w *world) Spent(context.Context, wire.QuestionInput) (u schema.Usage, err error) {
	for _, r := range w.replies {
		u.InputTokens, u.OutputTokens, u.Cost = u.InputTokens+r.Usage.InputTokens, u.OutputTokens+r.Usage.OutputTokens, u.Cost+r.Usage.Cost
		u.Own.InputTokens += r.Usage.Own.InputTokens
	}
	return u, nil
}

func (w *world) Sections(context.Context, schema.Principal, []uuid.UUID) (map[uuid.UUID]schema.Section, error) {
	return map[uuid.UUID]schema.Section{sectionID: {ID: sectionID, Text: w.text()}}, nil
}

func (w *world) SaveAnswer(_ context.Context, _ wire.QuestionInput, a schema.Answer) error {
	w.saved = &a
	return nil
}

func (w *world) Answer(context.Context, wire.QuestionInput) (schema.Answer, error) {
	return *w.saved, nil
}

func (w *world) Fail(_ context.Context, _ wire.QuestionInput, r schema.Reason) error {
	w.failed = &r
	return nil
}

func (w *world) ready() *world {
	w.words = []string{"one", "two", "three", "four", "five"}
	w.retrievals, w.replies = map[int]answer.Retrieval{}, map[wire.Step]wire.LLMReply{}
	return w
}

// durable runs the steps as the workflow does, each on its own Answerer.
func (w *world) durable(t *testing.T, in wire.QuestionInput) schema.Answer {
	t.Helper()
	a := func() *answer.Answerer { return answer.New(w, w, w) }
	ok := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	rounds, err := a().Understand(t.Context(), in)
	ok(err)
	ok(a().Retrieve(t.Context(), in))
	ok(a().Generate(t.Context(), wire.QuestionRound{QuestionInput: in}))
	for round := 1; rounds > 1; round++ {
		var again bool
		for range 2 { // a repeated step returns the same
			again, err = a().Judge(t.Context(), wire.QuestionRound{QuestionInput: in, Round: round})
			ok(err)
		}
		if !again || a().Generate(t.Context(), wire.QuestionRound{QuestionInput: in, Round: round + 1}) != nil {
			break
		}
	}
	ok(a().Finish(t.Context(), in))
	return *w.saved
}

func TestAnswersAreJudgedAndMadeAnew(t *testing.T) {
	broken := &schema.RemoteError{Code: schema.CodeOverloaded, Message: "no budget is left"}
	up, down := func(n int) wire.Feedback { return wire.Feedback{Score: n, Adjust: 1} }, func(n int) wire.Feedback { return wire.Feedback{Score: n, Adjust: -1} }
	for _, x := range []struct {
		name    string
		world   world
		answer  string
		asked   string
		rounds  int
		message string // part of the explanation
	}{
		{"a plan that judges nothing", world{minK: 2}, "two", "answer 1", 1, "answered by scripted"},
		{"good enough at once", world{minK: 2, rounds: 3, feedback: []wire.Feedback{up(9)}}, "two", "answer 1,feedback 1", 1, "round 1, min_k 2: the answer is worth 9 of 10, by scripted; 9 is enough"},
		{"better with one more", world{minK: 2, rounds: 3, feedback: []wire.Feedback{up(4), up(10)}}, "three", "answer 1,feedback 1,select,answer 2,feedback 2", 2,
			"round 2, min_k 3: the answer is worth 10 of 10, by scripted; 9 is enough; this answer is kept"},
		{"worse with one less", world{minK: 3, rounds: 3, feedback: []wire.Feedback{down(6), down(5), down(4)}}, "three",
			"answer 1,feedback 1,select,answer 2,feedback 2,select,answer 3,feedback 3", 3, "less than 9, but this is the last of 3 rounds"},
		{"of two that are equal the first", world{minK: 2, rounds: 2, feedback: []wire.Feedback{up(5), up(5)}}, "two", "answer 1,feedback 1,select,answer 2,feedback 2", 2,
			"min_k becomes 3; this answer is kept"},
		{"never below one", world{minK: 1, rounds: 3, feedback: []wire.Feedback{down(5)}}, "one", "answer 1,feedback 1,select", 1, "min_k 1 selects what round 1 had"},
		{"nothing more to select", world{minK: 9, rounds: 3, feedback: []wire.Feedback{up(5)}}, "five", "answer 1,feedback 1,select", 1, "min_k 10 selects what round 1 had"},
		{"back to where it was", world{minK: 2, rounds: 3, feedback: []wire.Feedback{up(5), down(6)}}, "three", "answer 1,feedback 1,select,answer 2,feedback 2,select", 2,
			"min_k 2 selects what round 1 had"},
		{"judging fails", world{minK: 2, rounds: 3, fail: map[string]error{"feedback 1": broken}}, "two", "answer 1,feedback 1", 1, "not judged: no budget is left"},
		{"judging fails later", world{minK: 2, rounds: 3, feedback: []wire.Feedback{up(3)}, fail: map[string]error{"feedback 2": broken}}, "two",
			"answer 1,feedback 1,select,answer 2,feedback 2", 2, "round 2, min_k 3: not judged: no budget is left"},
		{"selecting fails", world{minK: 2, rounds: 3, feedback: []wire.Feedback{up(3)}, fail: map[string]error{"select": broken}}, "two",
			"answer 1,feedback 1,select", 1, "nothing is selected again: no budget is left"},
		{"another answer fails", world{minK: 2, rounds: 3, feedback: []wire.Feedback{up(3)}, fail: map[string]error{"answer 2": broken}}, "two",
			"answer 1,feedback 1,select,answer 2", 1, "min_k becomes 3; that round failed, so what there is stays"},
	} {
		in := wire.QuestionInput{Tenant: uuid.New(), Question: uuid.New(), Attempt: 1}
		now, later := x.world, x.world
		a, err := answer.New(now.ready(), &now, &now).Ask(t.Context(), in)
		if err != nil {
			t.Fatalf("%s: %v", x.name, err)
		}
		for method, a := range map[string]schema.Answer{"asked": a, "in steps": later.ready().durable(t, in)} {
			reasons := ""
			for _, r := range a.Trace {
				reasons += r.Stage + ": " + r.Why + "\n"
			}
			if a.Answer != x.answer || a.Rounds != x.rounds || !a.Supported || !strings.Contains(reasons, x.message) {
				t.Errorf("%s, %s: got %q after %d rounds\n%s", x.name, method, a.Answer, a.Rounds, reasons)
			}
		}
		if got := strings.Join(now.asked, ","); got != x.asked {
			t.Errorf("%s: asked %s, want %s", x.name, got, x.asked)
		}
		if got := strings.Join(later.asked, ","); !strings.HasPrefix(got, x.asked) || strings.Count(got, "answer 1") != 1 || strings.Count(got, "feedback 1") > 1 {
			t.Errorf("%s: steps asked %s, want %s", x.name, got, x.asked)
		}
		if x.world.rounds > 0 && !slices.Contains(now.stages, answer.StepJudge) {
			t.Errorf("%s: went through %v", x.name, now.stages)
		}
		paid := len(now.replies)
		if a.Usage.InputTokens != 10*paid && x.world.fail["answer 2"] == nil || a.Usage.Cost < 0.5 {
			t.Errorf("%s: cost %+v for %d calls", x.name, a.Usage, paid)
		}
	}
}

// TestAQuestionWhoseDocumentIsPurgedSaysSo: at whichever step this is found, the question ends with
// what happened and what to do.
func TestAQuestionWhoseDocumentIsPurgedSaysSo(t *testing.T) {
	in := wire.QuestionInput{Tenant: uuid.New(), Question: uuid.New(), Attempt: 1}
	for name, step := range map[string]func(a *answer.Answerer) error{
		"generate": func(a *answer.Answerer) error { return a.Generate(t.Context(), wire.QuestionRound{QuestionInput: in}) },
		"judge": func(a *answer.Answerer) error {
			_, err := a.Judge(t.Context(), wire.QuestionRound{QuestionInput: in, Round: 1})
			return err
		},
		"finish": func(a *answer.Answerer) error { return a.Finish(t.Context(), in) },
	} {
		w := (&world{rounds: 2, minK: 2}).ready()
		a := answer.New(w, w, w)
		if err := a.Retrieve(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		clear(w.retrievals)
		err := step(a)
		if err == nil {
			t.Fatalf("%s goes on without what was retrieved", name)
		}
		if r := answer.ReasonOf(err); r.Code != string(schema.CodeNotFound) || !strings.Contains(r.Message, "was deleted") || !strings.Contains(r.Message, "ask again") {
			t.Errorf("%s ends it with %+v", name, r)
		}
	}
}

func TestJudgingLeavesTimeToFinish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // on a clock that only advances while all goroutines wait
		w := (&world{minK: 2, rounds: 3, slow: "feedback 1"}).ready()
		//house:clock the question's time, a share of which the judge has
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		a, err := answer.New(w, w, w).Ask(ctx, wire.QuestionInput{Question: uuid.New()})
		notJudged := func(r schema.StageReport) bool { return strings.Contains(r.Why, "not judged") }
		if err != nil || a.Answer != "two" || !slices.ContainsFunc(a.Trace, notJudged) {
			t.Errorf("got %+v, %v", a, err)
		}
	})
}

func TestAnAnswerWithoutRetrievalIsUncited(t *testing.T) {
	for _, durable := range []bool{false, true} {
		w := (&world{skipped: true, rounds: 3}).ready()
		in := wire.QuestionInput{Question: uuid.New()}
		var a schema.Answer
		var err error
		if durable {
			a = w.durable(t, in)
		} else if a, err = answer.New(w, w, w).Ask(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		if a.Answer != "From what I know." || !a.Uncited || a.Supported || len(a.Citations) != 0 || !slices.Equal(w.asked, []string{"background 1"}) {
			t.Errorf("in steps %t: got %+v, asked %v", durable, a, w.asked)
		}
		if !slices.ContainsFunc(a.Trace, func(r schema.StageReport) bool { return strings.Contains(r.Why, "without documents") }) {
			t.Errorf("it says %+v", a.Trace)
		}
	}
}

// TestAReaderBeginsNoRoundByItself: the model that read the answer from the passages judges it by
// its own confidence, and reads the same from more passages. Another model's judgement of the same
// answer begins a round.
func TestAReaderBeginsNoRoundByItself(t *testing.T) {
	up := func(n int) wire.Feedback { return wire.Feedback{Score: n, Adjust: 1} }
	for _, x := range []struct {
		name    string
		world   world
		asked   string
		message string
	}{
		{"it is not sure", world{minK: 2, rounds: 3, reads: 0.4, judges: "extractive", feedback: []wire.Feedback{up(5)}}, "answer 1,feedback 1 sure by 0.4",
			"the answer is worth 5 of 10, by extractive; less than 9, but only another model's judgement begins another round"},
		{"it is sure", world{minK: 2, rounds: 3, reads: 0.9, judges: "extractive", feedback: []wire.Feedback{up(9)}}, "answer 1,feedback 1 sure by 0.9", "9 is enough"},
		{"it finds none", world{minK: 2, rounds: 3, refuses: true, judges: "extractive", feedback: []wire.Feedback{up(1)}}, "answer 1,feedback 1 sure by 0", "only another model's judgement"},
		{"a language model judges", world{minK: 2, rounds: 2, reads: 0.4, judges: "scripted", feedback: []wire.Feedback{up(5), up(9)}},
			"answer 1,feedback 1 sure by 0.4,select,answer 2,feedback 2 sure by 0.4", "min_k becomes 3"},
		{"a language model answers", world{minK: 2, rounds: 2, judges: "extractive", feedback: []wire.Feedback{up(5), up(9)}},
			"answer 1,feedback 1,select,answer 2,feedback 2", "min_k becomes 3"},
	} {
		w := x.world
		a, err := answer.New(w.ready(), &w, &w).Ask(t.Context(), wire.QuestionInput{Tenant: uuid.New(), Question: uuid.New(), Attempt: 1})
		if err != nil {
			t.Fatalf("%s: %v", x.name, err)
		}
		reasons := ""
		for _, r := range a.Trace {
			reasons += r.Why + "\n"
		}
		if got := strings.Join(w.asked, ","); got != x.asked || !strings.Contains(reasons, x.message) {
			t.Errorf("%s: asked %s, want %s\n%s", x.name, got, x.asked, reasons)
		}
	}
}
