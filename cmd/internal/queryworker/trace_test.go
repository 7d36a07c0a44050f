//go:build cgo

package queryworker

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/sluice-rag/sluice/internal/waittest"
	"github.com/sluice-rag/sluice/plans"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// traced returns the ended spans of a trace after all wanted ones have ended. A worker's span may
// end after its effect is visible.
func (w *world) traced(id trace.TraceID, wanted []string) []sdktrace.ReadOnlySpan {
	w.t.Helper()
	var spans []sdktrace.ReadOnlySpan
	waittest.Until(w.t, func() string {
		spans = nil
		for _, s := range recorded.Ended() {
			if s.SpanContext().TraceID() == id {
				spans = append(spans, s)
			}
		}
		missing := slices.DeleteFunc(slices.Clone(wanted), func(name string) bool {
			return slices.ContainsFunc(spans, func(s sdktrace.ReadOnlySpan) bool { return strings.HasPrefix(s.Name(), name) })
		})
		if len(missing) == 0 {
			return ""
		}
		var names []string
		for _, s := range spans {
			names = append(names, s.Name())
		}
		return fmt.Sprintf("the trace lacks %q; it has %q", missing, names)
	})
	return spans
}

// oneTree checks that every span of a trace except the root has its parent in the trace.
func oneTree(t *testing.T, root trace.SpanContext, spans []sdktrace.ReadOnlySpan) {
	t.Helper()
	known := map[trace.SpanID]bool{root.SpanID(): true}
	for _, s := range spans {
		known[s.SpanContext().SpanID()] = true
	}
	for _, s := range spans {
		if s.SpanContext().SpanID() != root.SpanID() && !known[s.Parent().SpanID()] {
			t.Errorf("span %q has no parent in the trace", s.Name())
		}
	}
}

// checkNoStraySpans checks that no span of a question is in another trace.
func checkNoStraySpans(t *testing.T, id trace.TraceID, in wire.QuestionInput) {
	t.Helper()
	for _, s := range recorded.Ended() {
		for _, a := range s.Attributes() {
			if a.Value.AsString() == in.Question.String() && s.SpanContext().TraceID() != id {
				t.Errorf("span %q of the question is in another trace", s.Name())
			}
		}
	}
}

// everywhere are the spans of both ways of asking.
var everywhere = []string{
	"question understand", "question retrieve", "question generate", "question finish", // steps
	"plan " + plans.Default, "stage hybrid", // plan
	"model.encode",                                  // model client
	"SELECT", "WITH", "request sluice.llm.complete", // SQL, also of the search; NATS
	"serve sluice.llm.complete", "complete answer", // gateway
}

func TestAskIsOneTrace(t *testing.T) {
	w := newWorld(t)
	w.handbook()
	w.startAll()
	ctx, root := otel.Tracer("test").Start(w.context(), "http")
	in := w.ask(ctx, carryOver, false)
	if _, failure := w.requestAnswer(ctx, in); failure != nil {
		t.Fatal(failure)
	}
	root.End()
	id := root.SpanContext().TraceID()
	spans := w.traced(id, append([]string{"http", "request sluice.query.ask", "serve sluice.query.ask"}, everywhere...))
	oneTree(t, root.SpanContext(), spans)
	checkNoStraySpans(t, id, in)
	modelServerIn(t, spans)
}

func TestJobIsOneTraceThroughTheOutboxNATSAndTemporal(t *testing.T) {
	w := newWorld(t)
	w.handbook()
	w.startAll()
	ctx, root := otel.Tracer("test").Start(w.context(), "http")
	in := w.ask(ctx, carryOver, true)
	root.End()
	w.await(in.Question, schema.JobAnswered)
	id := root.SpanContext().TraceID()
	spans := w.traced(id, append([]string{"http", "start question", "StartWorkflow:AnswerQuestion", "RunWorkflow:AnswerQuestion",
		"RunActivity:question-understand", "RunActivity:question-retrieve", "RunActivity:question-generate", "RunActivity:question-finish"}, everywhere...))
	oneTree(t, root.SpanContext(), spans)
	checkNoStraySpans(t, id, in)
	modelServerIn(t, spans)
}

// modelServerIn checks that the trace has the model server's spans, or that these link to it: a
// batch of merged requests links to each of them.
func modelServerIn(t *testing.T, spans []sdktrace.ReadOnlySpan) {
	t.Helper()
	for _, s := range spans {
		if strings.Contains(s.InstrumentationScope().Name, "inference") {
			return
		}
	}
	for _, s := range recorded.Ended() {
		if !strings.Contains(s.InstrumentationScope().Name, "inference") {
			continue
		}
		for _, l := range s.Links() {
			if l.SpanContext.TraceID() == spans[0].SpanContext().TraceID() {
				return
			}
		}
	}
	t.Error("no span of the model server belongs to the trace")
}
