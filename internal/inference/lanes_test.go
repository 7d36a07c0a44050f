package inference

// This file tests that interactive requests are served before bulk requests, whatever models they
// use. It compares the order of replies, not times.

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/sluice-rag/sluice/internal/waittest"
	"github.com/sluice-rag/sluice/schema/wire"
)

func TestAnInteractiveScoreGoesBeforeABacklogOfBulk(t *testing.T) {
	const backlog = 60 // requests of each kind
	for name, c := range map[string]struct {
		workers int
		graph   string // of half of the backlog and of the interactive request
	}{"one worker": {1, ""}, "two workers": {2, ""}, "one worker, reranker": {1, wire.GraphReranker}, "two workers, reranker": {2, wire.GraphReranker}} {
		t.Run(name, func(t *testing.T) {
			nc, _ := serving(t, openFull(t), ServerOptions{Workers: c.workers, MaxSequences: 1 << 20, MaxBytes: 1 << 30})
			inbox := nc.NewInbox()
			replies, err := nc.SubscribeSync(inbox + ".>")
			if err != nil {
				t.Fatal(err)
			}
			ask := func(as string, op wire.ModelOp, request any) {
				data, err := wire.Encode(request)
				if err != nil {
					t.Fatal(err)
				}
				if err := nc.PublishMsg(&nats.Msg{Subject: wire.ModelSubject(op), Reply: inbox + "." + as, Data: data}); err != nil {
					t.Fatal(err)
				}
			}
			texts := make([]string, 100)
			for i := range texts {
				texts[i] = strings.Repeat(fmt.Sprintf("Clause %d of the contract says nothing. ", i), 1+i%20)
			}
			for i := range backlog {
				ask(fmt.Sprint("encode.", i), wire.OpEncode, wire.EncodeRequest{Envelope: wire.Header(), Lane: wire.LaneBulk, Texts: texts})
				ask(fmt.Sprint("score.", i), wire.OpScore, wire.ScoreRequest{Envelope: wire.Header(), Lane: wire.LaneBulk, Question: "What says nothing?", Texts: texts, Graph: c.graph})
			}
			// The last request sent, on the same connection as all others.
			ask("urgent", wire.OpScore, wire.ScoreRequest{Envelope: wire.Header(), Lane: wire.LaneInteractive, Question: "What says nothing?", Texts: texts[:50], Answers: true, Graph: c.graph})
			before := -1
			for got := range 2*backlog + 1 {
				msg, err := replies.NextMsgWithContext(waittest.Context(t))
				if err != nil {
					t.Fatalf("after %d replies: %v", got, err)
				}
				reply, err := decode[wire.ScoreReply](msg.Data)
				if err != nil || reply.Error != nil {
					t.Fatalf("%s: %+v, %v", msg.Subject, reply.Error, err)
				}
				if strings.HasSuffix(msg.Subject, ".urgent") {
					before = got
				}
			}
			t.Logf("%d of %d bulk requests were answered before it", before, 2*backlog)
			if before < 0 || before > backlog {
				t.Errorf("%d of %d bulk requests were answered before the interactive one", before, 2*backlog)
			}
		})
	}
}
