//go:build cgo

package queryworker

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/sluice-rag/sluice/internal/question/answer"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// After an intended change of AnswerQuestion, add new histories beside the old ones:
//
//	go test ./cmd/internal/queryworker -run Job -record NAME
//
// Old histories stay as long as questions of that time may still run.
var record = flag.String("record", "", "write the histories of these tests under this name to workflows/testdata")

// saveHistory waits for the end of a question's workflow, and keeps its history if asked to.
func (w *world) saveHistory(name string, in wire.QuestionInput) {
	w.t.Helper()
	ctx := w.context()
	id := wire.QuestionWorkflowID(in.Question, in.Attempt)
	_ = w.client.GetWorkflow(ctx, id, "").Get(ctx, nil) // its state is in the store
	w.keepHistory(id, "answer_question", name)
}

// keepHistory writes a workflow's history under the name of its kind and its own, if asked to.
func (w *world) keepHistory(workflow, kind, name string) {
	w.t.Helper()
	if *record == "" {
		return
	}
	events := w.client.GetWorkflowHistory(w.context(), workflow, "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	var history historypb.History
	for events.HasNext() {
		e, err := events.Next()
		w.ok(err)
		history.Events = append(history.Events, e)
	}
	data, err := protojson.MarshalOptions{Multiline: true, Indent: " "}.Marshal(&history)
	w.ok(err)
	file := filepath.Join("..", "..", "..", "workflows", "testdata", fmt.Sprintf("%s_%s_%s.json", kind, *record, name))
	w.ok(os.WriteFile(file, append(data, '\n'), 0o644))
}

func TestJobIsAnswered(t *testing.T) {
	w := newWorld(t)
	w.handbook()
	w.startAll()
	in := w.ask(w.context(), carryOver, true)
	j := w.await(in.Question, schema.JobAnswered)
	if j.Result == nil || !j.Result.Supported || !strings.Contains(j.Result.Answer, "five days") || j.Result.Citations[0].Document != "leave.md" || j.FinishedAt == nil {
		t.Fatalf("got %+v", j.Result)
	}
	w.checkCitations(*j.Result)
	w.saveHistory("answered", in)
	now, failure := w.askSync(w.context(), carryOver)
	if failure != nil || now.Answer != j.Result.Answer || fmt.Sprint(now.Citations) != fmt.Sprint(j.Result.Citations) {
		t.Errorf("asked at once, the answer differs: %+v", now)
	}
	nothing := w.ask(w.context(), "zzqxv", true)
	if j := w.await(nothing.Question, schema.JobAnswered); j.Result.Supported || j.Result.Answer != schema.NoAnswer {
		t.Errorf("nothing found gave %+v", j.Result)
	}
}

func TestJobFailsWithItsReason(t *testing.T) {
	w := newWorld(t)
	w.handbook()
	in := w.ask(w.context(), carryOver, true)
	w.ok(w.store.AsTenant(w.context(), in.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE questions SET plan = 'clever' WHERE id = $1`, in.Question)
		return err
	}))
	w.startAll()
	j := w.await(in.Question, schema.JobFailed)
	if j.Reason.Code != string(schema.CodeInvalid) || !strings.Contains(j.Reason.Message, "naive") {
		t.Errorf("the reason is %+v", j.Reason)
	}
	w.saveHistory("failed", in)
}

// gate stops a step before or after its work.
type gate struct {
	reached chan struct{}
	open    chan struct{}
	once    sync.Once
}

func newGate() *gate { return &gate{reached: make(chan struct{}), open: make(chan struct{})} }

func (g *gate) pass(ctx context.Context) {
	g.once.Do(func() { close(g.reached) })
	select {
	case <-g.open:
	case <-ctx.Done():
	}
}

type gatedStore struct {
	answer.Store
	begin, save *gate
}

func (s gatedStore) Begin(ctx context.Context, in wire.QuestionInput) (answer.Question, error) {
	if s.begin != nil {
		s.begin.pass(ctx)
	}
	return s.Store.Begin(ctx, in)
}

func (s gatedStore) SaveAnswer(ctx context.Context, in wire.QuestionInput, a schema.Answer) error {
	if s.save != nil {
		s.save.pass(ctx)
	}
	return s.Store.SaveAnswer(ctx, in, a)
}

type gatedRetriever struct {
	answer.Retriever
	*gate
}

func (r gatedRetriever) Retrieve(ctx context.Context, q wire.SearchQuery) (answer.Retrieval, error) {
	r.pass(ctx)
	return r.Retriever.Retrieve(ctx, q)
}

type gatedGenerator struct {
	answer.Generator
	*gate
}

func (g gatedGenerator) Complete(ctx context.Context, r wire.LLMRequest) (wire.LLMReply, error) {
	g.pass(ctx)
	return g.Generator.Complete(ctx, r)
}

func TestJobIsCancelledAtEveryStep(t *testing.T) {
	for step, hold := range map[string]func(*parts, *gate){
		answer.StepUnderstand: func(p *parts, g *gate) { p.store = gatedStore{Store: p.store, begin: g} },
		answer.StepRetrieve:   func(p *parts, g *gate) { p.retriever = gatedRetriever{p.retriever, g} },
		answer.StepGenerate:   func(p *parts, g *gate) { p.generator = gatedGenerator{p.generator, g} },
		answer.StepFinish:     func(p *parts, g *gate) { p.store = gatedStore{Store: p.store, save: g} },
	} {
		t.Run(step, func(t *testing.T) {
			w := newWorld(t)
			w.handbook()
			w.gateway()
			w.relay()
			g := newGate()
			w.run(w.worker(func(p *parts) { hold(p, g) }).service())
			in := w.ask(w.context(), carryOver, true)
			ctx := w.context()
			select {
			case <-g.reached:
			case <-ctx.Done():
				t.Fatal("the step never began")
			}
			if step != answer.StepUnderstand && step != answer.StepFinish {
				if j, err := w.questions.Job(ctx, w.principal, in.Question); err != nil || j.Stage != step || j.State != schema.JobRunning {
					t.Errorf("the job shows %+v, %v", j, err)
				}
				var stage string
				value, err := w.client.QueryWorkflow(ctx, wire.QuestionWorkflowID(in.Question, 1), "", wire.QueryQuestionStage)
				if err != nil || value.Get(&stage) != nil || stage != "question-"+step {
					t.Errorf("the workflow shows stage %q, %v", stage, err)
				}
			}
			_, err := w.questions.CancelJob(ctx, w.principal, in.Question)
			w.ok(err)
			// The workflow ends although the step still waits.
			w.saveHistory("cancelled_"+step, in)
			close(g.open)
			if j := w.await(in.Question, schema.JobCancelled); j.Result != nil {
				t.Errorf("a cancelled job has a result: %+v", j.Result)
			}
			if n := scalar[int](w, `SELECT count(*) FROM answers`) + scalar[int](w, `SELECT count(*) FROM leases`); n != 0 {
				t.Errorf("%d rows were left behind", n)
			}
		})
	}
}

func TestJobGoesOnWhenTemporalForgetsIt(t *testing.T) {
	w := newWorld(t)
	w.settings.QuestionLease = time.Second
	w.handbook()
	paid := w.scriptedOpenAI("You may carry over up to five days of unused annual leave into the next year.")
	w.gateway()
	w.relay()
	g := newGate()
	w.run(w.worker(func(p *parts) { p.store = failingStore{Store: p.store, gate: g} }).service())
	in := w.ask(w.context(), carryOver, true)
	<-g.reached // the answer is paid for but not stored yet
	w.ok(w.client.TerminateWorkflow(w.context(), wire.QuestionWorkflowID(in.Question, 1), "", "a test"))
	close(g.open)
	j := w.await(in.Question, schema.JobAnswered)
	w.checkCitations(*j.Result)
	if n := paid.paid.Load(); n != 1 {
		t.Errorf("paid %d times", n)
	}
	if attempt := scalar[int](w, `SELECT attempt FROM questions`); attempt < 2 {
		t.Error("it was not queued again")
	}
}

// failingStore fails the first attempt's SaveAnswer after the gate, like a worker that lost its
// workflow.
type failingStore struct {
	answer.Store
	gate *gate
}

func (s failingStore) SaveAnswer(ctx context.Context, in wire.QuestionInput, a schema.Answer) error {
	if in.Attempt == 1 {
		s.gate.pass(ctx)
		return schema.ErrUnavailable
	}
	return s.Store.SaveAnswer(ctx, in, a)
}

func TestJobWhoseMessageWasLostIsQueuedAgain(t *testing.T) {
	w := newWorld(t)
	w.settings.QuestionLease = 500 * time.Millisecond
	w.handbook()
	in := w.ask(w.context(), carryOver, true)
	w.ok(w.store.AsSystem(w.context(), func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `DELETE FROM outbox`)
		return err
	}))
	w.startAll()
	w.await(in.Question, schema.JobAnswered)
}

func TestJobsOfTwoWorkersRunOnce(t *testing.T) {
	w := newWorld(t)
	w.handbook()
	w.gateway()
	w.relay()
	w.run(w.worker(nil).service())
	w.run(w.worker(nil).service())
	var asked []uuid.UUID
	for range 12 {
		asked = append(asked, w.ask(w.context(), carryOver, true).Question)
	}
	for _, id := range asked {
		w.checkCitations(*w.await(id, schema.JobAnswered).Result)
	}
	if n := scalar[int](w, `SELECT count(*) FROM llm_calls`); n != len(asked) {
		t.Errorf("%d calls for %d questions", n, len(asked))
	}
}
