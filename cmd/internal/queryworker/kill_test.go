//go:build cgo

package queryworker

// A worker that is killed after a paid reply and before the end of the step that asked for it.

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/internal/bus"
	"github.com/sluice-rag/sluice/internal/durable"
	"github.com/sluice-rag/sluice/internal/question/answer"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/questions"
	"github.com/sluice-rag/sluice/internal/store/stores"
	"github.com/sluice-rag/sluice/internal/waittest"
	"github.com/sluice-rag/sluice/plans"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// workerVariable has the childSettings of a test binary that is to run as a worker.
const workerVariable = "SLUICE_TEST_WORKER"

type childSettings struct {
	Database, NATS, Temporal, Namespace string
	Settings                            Settings
	After                               wire.LLMTask // the task after whose reply the process is killed; none: after the first reply
}

// runIfWorkerChild makes this process a worker if a test started it as one.
func runIfWorkerChild() bool {
	encoded := os.Getenv(workerVariable)
	if encoded == "" {
		return false
	}
	if err := runWorkerChild([]byte(encoded)); err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
	return true
}

func runWorkerChild(encoded []byte) error {
	var c childSettings
	if err := json.Unmarshal(encoded, &c); err != nil {
		return err
	}
	// The process ends with the test that started it, because the end of the test closes the pipe.
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	db, err := store.Open(ctx, c.Database, store.Options{})
	if err != nil {
		return err
	}
	nc, err := bus.Connect(ctx, bus.Options{URL: c.NATS, Name: "child"})
	if err != nil {
		return err
	}
	tc, err := durable.Dial(ctx, durable.Options{Address: c.Temporal, Namespace: c.Namespace, Name: "child"})
	if err != nil {
		return err
	}
	w, err := newWorker(c.Settings, Deps{Store: db, NATS: nc, Temporal: tc})
	if err != nil {
		return err
	}
	w.answerer = func(r requestState) *answer.Answerer {
		return answer.New(stores.Of(db), retriever{w, r}, processKiller{gateway{nc: nc, requestState: r}, c.After})
	}
	if err := w.service().Start(ctx); err != nil {
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}

// processKiller kills its process after the gateway has answered.
type processKiller struct {
	answer.Generator
	after wire.LLMTask
}

func (s processKiller) Complete(ctx context.Context, r wire.LLMRequest) (wire.LLMReply, error) {
	reply, err := s.Generator.Complete(ctx, r)
	if err == nil && (s.after == "" || s.after == r.Task) {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		<-ctx.Done()
	}
	return reply, err
}

// child starts a worker that is killed after the reply to a task.
func (w *world) child(after wire.LLMTask) *exec.Cmd {
	w.t.Helper()
	settings, err := json.Marshal(childSettings{w.url, w.bus.URL(), w.temporal.Address, w.temporal.Namespace, w.settings, after})
	w.ok(err)
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), workerVariable+"="+string(settings))
	child.Stderr = os.Stderr
	_, err = child.StdinPipe() // the child runs until the pipe is closed, which Wait does
	w.ok(err)
	w.ok(child.Start())
	return child
}

// killed asks a worker that is killed after the reply to a task.
func (w *world) killed(after wire.LLMTask, ask func() wire.QuestionInput) wire.QuestionInput {
	w.t.Helper()
	child := w.child(after)
	in := ask()
	err := child.Wait()
	if status, ok := child.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		w.t.Fatalf("the worker ended as %v, not killed", err)
	}
	return in
}

func TestAnswerIsPaidOnceThoughItsWorkerIsKilled(t *testing.T) {
	w := newWorld(t)
	w.handbook()
	paid := w.scriptedOpenAI("You may carry over up to five days of unused annual leave into the next year.")
	w.gateway()
	w.relay()
	in := w.killed("", func() wire.QuestionInput { return w.ask(w.context(), carryOver, true) })
	if n := paid.paid.Load(); n != 1 {
		t.Fatalf("paid %d times before the kill", n)
	}
	start := time.Now()
	w.run(w.worker(nil).service())
	j := w.await(in.Question, schema.JobAnswered)
	t.Logf("answered %s after the next worker started", time.Since(start).Round(time.Millisecond))
	w.checkCitations(*j.Result)
	// The other call is to the pack's reader, which checks whether the passages answer the
	// question.
	if n, calls := paid.paid.Load(), scalar[int](w, `SELECT count(*) FROM llm_calls WHERE provider = 'openai'`); n != 1 || calls != 1 {
		t.Errorf("paid %d times, %d paid calls in the ledger", n, calls)
	}
}

// TestAQuestionThatIsWaitedForEndsThoughItsWorkerIsKilled: it ends at its deadline, even without a
// client.
func TestAQuestionThatIsWaitedForEndsThoughItsWorkerIsKilled(t *testing.T) {
	w := newWorld(t)
	w.handbook()
	w.scriptedOpenAI("You may carry over up to five days of unused annual leave into the next year.")
	w.gateway()
	ctx, disconnect := context.WithCancel(w.context())
	over := make(chan error, 1)
	in := w.killed("", func() wire.QuestionInput {
		waittest.Until(t, func() string { // waits until the worker refuses an invalid request
			if _, err := w.nats.RequestWithContext(ctx, wire.AskSubject, []byte("{}")); err != nil {
				return err.Error()
			}
			return ""
		})
		j, err := w.questions.CreateQuestion(ctx, w.principal, questions.NewQuestion{Query: schema.Query{Collection: w.collection, Text: carryOver, Plan: plans.Default}, Until: time.Now()})
		w.ok(err)
		go func() {
			_, err := bus.Request[wire.AskReply](ctx, w.nats, wire.AskSubject, wire.AskRequest{Envelope: wire.Header(),
				SearchQuery: wire.SearchQuery{Principal: w.principal, Query: schema.Query{Collection: w.collection}}, Question: j.ID})
			over <- err
		}()
		return wire.QuestionInput{Tenant: w.principal.Tenant, Question: j.ID, Attempt: 1}
	})
	disconnect()
	if err := <-over; err == nil {
		t.Error("a worker that was killed has answered")
	}
	if state := scalar[string](w, `SELECT state FROM questions`); state != "running" {
		t.Fatalf("the question of a worker that was killed is %s", state)
	}
	next := w.worker(nil)
	next.jobs.Grace = 0
	w.run(next.service())
	w.awaitCount(1, `SELECT count(*) FROM questions WHERE id = $1 AND state = 'failed' AND reason_code = 'unavailable'`, in.Question)
}
