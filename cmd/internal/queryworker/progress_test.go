//go:build cgo

package queryworker

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/bus"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// TestAStreamTellsTheStepsAndTheText: the stream has the steps in order, with the number of
// candidates, and the text of the provider without a language model.
func TestAStreamTellsTheStepsAndTheText(t *testing.T) {
	w := newWorld(t)
	w.handbook()
	w.startAll()
	in := w.ask(w.context(), carryOver, false)
	var stages []string
	var text strings.Builder
	reply, err := bus.RequestStream[wire.AskReply](w.context(), w.nats, wire.AskSubject, func(stream string) any {
		return wire.AskRequest{Envelope: wire.Header(), SearchQuery: wire.SearchQuery{Principal: w.principal}, Question: in.Question, Stream: stream}
	}, func(part string, data []byte) {
		switch part {
		case wire.PartStage:
			var m wire.QuestionStage
			w.ok(json.Unmarshal(data, &m))
			stages = append(stages, m.Stage)
			if before := m.Stage == "understand" || m.Stage == "retrieve"; before == (m.Candidates > 0) || m.Question != in.Question {
				t.Errorf("step %s tells %+v", m.Stage, m)
			}
		case wire.PartText:
			var m wire.LLMDelta
			w.ok(json.Unmarshal(data, &m))
			if len(stages) == 0 || stages[len(stages)-1] != "generate" {
				t.Errorf("text came after the steps %v", stages)
			}
			if m.Restart {
				text.Reset()
			}
			text.WriteString(m.Text)
		}
	})
	w.ok(err)
	if reply.Error != nil || !reply.Answer.Supported || text.String() != reply.Answer.Answer {
		t.Errorf("told %q, answered %+v, %v", text.String(), reply.Answer, reply.Error)
	}
	if got := strings.Join(stages, " "); !regexp.MustCompile(`^understand retrieve( generate( judge)?)+ finish$`).MatchString(got) {
		t.Errorf("the steps were %q", got)
	}
}

// TestAStreamIsAnInbox: a request cannot have its stream sent to a subject on which others listen.
func TestAStreamIsAnInbox(t *testing.T) {
	w := newWorld(t)
	w.run(w.worker(nil).service())
	in := w.ask(w.context(), carryOver, false)
	for _, stream := range []string{wire.LLMSubject, "_INBOX.>", "_INBOX.a b"} {
		reply, err := bus.Request[wire.AskReply](w.context(), w.nats, wire.AskSubject, wire.AskRequest{Envelope: wire.Header(),
			SearchQuery: wire.SearchQuery{Principal: w.principal}, Question: in.Question, Stream: stream})
		w.ok(err)
		if reply.Error == nil || reply.Error.Code != schema.CodeInvalid || reply.Error.Field != "stream" {
			t.Errorf("%q gave %+v", stream, reply.Error)
		}
	}
}
