//go:build cgo

package queryworker

// The plan sage with real parts and a scripted language model that judges its answers. Its rounds
// are stored, and a worker is killed between two of them.

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/question/answer"
	"github.com/sluice-rag/sluice/internal/store/questions"
	"github.com/sluice-rag/sluice/internal/waittest"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// critic is a server with the chat completions API. It quotes one sentence and judges by a script,
// with one entry per judgement, of which the last one is repeated.
type critic struct {
	mu       sync.Mutex
	verdicts []wire.Feedback
	judged   int
	answered int
	uncited  int // number of answers without passages
}

func (w *world) critic(quote string, verdicts ...wire.Feedback) *critic {
	w.t.Helper()
	c := &critic{verdicts: verdicts}
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		var asked struct {
			Messages []struct{ Content string } `json:"messages"`
		}
		_ = json.NewDecoder(r.Body).Decode(&asked)
		c.mu.Lock()
		defer c.mu.Unlock()
		var reply any = map[string]any{"answer": "Five days.", "citations": []any{map[string]any{"passage": 1, "quote": quote}}}
		switch {
		case strings.Contains(asked.Messages[0].Content, `"adjust"`):
			reply = c.verdicts[min(c.judged, len(c.verdicts)-1)]
			c.judged++
		case strings.Contains(asked.Messages[0].Content, `"background"`):
			reply = map[string]any{"background": "It is usual to carry leave over.", "answer": "Five days, I know."}
			c.uncited++
		case strings.Contains(asked.Messages[0].Content, `"scores"`): // what a citation supports
			reply = map[string]any{"scores": []int{1}}
		default:
			c.answered++
		}
		content, _ := json.Marshal(reply)
		rw.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(rw).Encode(map[string]any{"id": "1", "object": "chat.completion", "model": "m",
			"choices": []any{map[string]any{"index": 0, "finish_reason": "stop", "message": map[string]any{"role": "assistant", "content": string(content)}}},
			"usage":   map[string]any{"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}})
	}))
	w.t.Cleanup(s.Close)
	w.llm = config.LLM{LLMProvider: "openai", LLMBaseURL: s.URL + "/v1", LLMModel: "scripted", LLMTimeout: waittest.Left(w.t)}
	return c
}

func (c *critic) counts() (answered, judged int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.answered, c.judged
}

// library adds the handbook and more documents, so that there are more passages than SAGE's
// selection starts with.
func (w *world) library() {
	w.handbook()
	w.add("parental.md", "Parental leave", "Parents have three years of parental leave. It is requested seven weeks ahead. Annual leave is not lost by it. "+
		"Part-time work of up to 32 hours a week is possible meanwhile. The annual leave that is unused is carried over until after it.")
	w.add("sick.md", "Sick leave", "Who falls ill tells the line manager on the first day. A doctor's note is due on the fourth day. "+
		"Days of illness during annual leave do not count as leave. Wages go on for six weeks.")
}

// storeQuestionFor stores a question with a plan.
func (w *world) storeQuestionFor(plan string, async bool) wire.QuestionInput {
	w.t.Helper()
	j, err := w.questions.CreateQuestion(w.context(), w.principal, questions.NewQuestion{Query: schema.Query{Collection: w.collection, Text: carryOver, Plan: plan}, Async: async})
	w.ok(err)
	return wire.QuestionInput{Tenant: w.principal.Tenant, Question: j.ID, Attempt: 1}
}

const fiveDays = "You may carry over up to five days of unused annual leave into the next year."

// checkRounds checks that an answer took two rounds, and that the second one was used.
func (w *world) checkRounds(a schema.Answer) {
	w.t.Helper()
	w.checkCitations(a)
	reasons := ""
	for _, r := range a.Trace {
		reasons += r.Stage + ": " + r.Why + "\n"
	}
	if a.Rounds != 2 || !a.Supported || !strings.Contains(reasons, "round 1, min_k 7: the answer is worth 4 of 10, by openai; min_k becomes 6") ||
		!strings.Contains(reasons, "round 2, min_k 6: the answer is worth 9 of 10, by openai; 9 is enough; this answer is kept") ||
		strings.Count(reasons, "gradient: ") != 2 || strings.Count(reasons, "dense: ") != 1 {
		w.t.Errorf("%d rounds:\n%s", a.Rounds, reasons)
	}
	if a.Usage.InputTokens < 4*11 {
		w.t.Errorf("four calls cost %+v", a.Usage)
	}
}

func TestSageAnswersInRounds(t *testing.T) {
	w := newWorld(t)
	w.library()
	c := w.critic(fiveDays, wire.Feedback{Score: 4, Adjust: -1}, wire.Feedback{Score: 9, Adjust: 1}, wire.Feedback{Score: 4, Adjust: -1}, wire.Feedback{Score: 9, Adjust: 1})
	w.startAll()
	in := w.storeQuestionFor("sage", true)
	job := w.await(in.Question, schema.JobAnswered)
	w.checkRounds(*job.Result)
	w.saveHistory("judged", in)
	kept := scalar[[]int](w, `SELECT array_agg(jsonb_array_length(candidates) ORDER BY round) FROM retrievals WHERE question_id = $1`, in.Question)
	if !slices.Equal(kept, []int{7, 6}) {
		t.Errorf("the rounds had %v passages", kept)
	}
	now, failure := w.requestAnswer(w.context(), w.storeQuestionFor("sage", false))
	if failure != nil {
		t.Fatal(failure)
	}
	w.checkRounds(now)
	if answered, judged := c.counts(); answered != 4 || judged != 4 {
		t.Errorf("answered %d times and judged %d times", answered, judged)
	}
}

func TestAJudgementIsPaidOnceThoughItsWorkerIsKilled(t *testing.T) {
	w := newWorld(t)
	w.library()
	c := w.critic(fiveDays, wire.Feedback{Score: 4, Adjust: -1}, wire.Feedback{Score: 9, Adjust: 1})
	w.gateway()
	w.relay()
	in := w.killed(wire.TaskFeedback, func() wire.QuestionInput { return w.storeQuestionFor("sage", true) })
	if answered, judged := c.counts(); answered != 1 || judged != 1 {
		t.Fatalf("before the kill it answered %d times and judged %d times", answered, judged)
	}
	w.run(w.worker(nil).service())
	w.checkRounds(*w.await(in.Question, schema.JobAnswered).Result)
	if answered, judged := c.counts(); answered != 2 || judged != 2 {
		t.Errorf("answered %d times and judged %d times", answered, judged)
	}
}

type gatedSelection struct {
	answer.Retriever
	*gate
}

func (r gatedSelection) Select(ctx context.Context, q wire.SearchQuery, pool []byte, minK int) (answer.Retrieval, error) {
	r.pass(ctx)
	return r.Retriever.Select(ctx, q, pool, minK)
}

func TestAJobThatIsJudgedIsCancelled(t *testing.T) {
	w := newWorld(t)
	w.library()
	w.critic(fiveDays, wire.Feedback{Score: 4, Adjust: -1})
	w.gateway()
	w.relay()
	g := newGate()
	w.run(w.worker(func(p *parts) { p.retriever = gatedSelection{p.retriever, g} }).service())
	in := w.storeQuestionFor("sage", true)
	<-g.reached
	if j, err := w.questions.Job(w.context(), w.principal, in.Question); err != nil || j.Stage != answer.StepJudge || j.State != schema.JobRunning {
		t.Errorf("the job shows %+v, %v", j, err)
	}
	_, err := w.questions.CancelJob(w.context(), w.principal, in.Question)
	w.ok(err)
	w.saveHistory("cancelled_judge", in)
	close(g.open)
	if j := w.await(in.Question, schema.JobCancelled); j.Result != nil {
		t.Errorf("a cancelled job has a result: %+v", j.Result)
	}
}
