package queryworker

// Streaming of a job's answer. The gateway sends deltas to the worker, and the worker publishes the
// whole text so far, so that a client that connects late or misses a message gets everything with
// the next one. When a worker is killed, the worker that repeats the step gets the reply from the
// ledger in one delta.

import (
	"context"
	"strings"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/sluice-rag/sluice/internal/bus"
	"github.com/sluice-rag/sluice/schema/wire"
)

// maxJobText is the maximum number of bytes of one answer that are published. The rest of a longer
// one comes with the result.
const maxJobText = 64 << 10

// completeStreaming gets a job's answer from the gateway, and publishes its text while it is made.
func (g gateway) completeStreaming(ctx context.Context, in wire.QuestionInput, r wire.LLMRequest) (wire.LLMReply, error) {
	text := jobText{nc: g.nc, subject: wire.TextSubject(in.Tenant, in.Question), question: in.Question}
	reply, err := bus.RequestStream[wire.LLMReply](ctx, g.nc, wire.LLMSubject, func(stream string) any {
		r.Stream = wire.StreamSubject(stream, wire.PartText)
		return r
	}, func(part string, data []byte) {
		// A delta that cannot be read may be from a newer gateway; the reply has its text.
		if d, err := wire.Decode[wire.LLMDelta](data); err == nil && part == wire.PartText {
			text.add(d)
		}
	}, bus.SignedBy(g.signer))
	if err == nil && reply.Error == nil {
		text.end()
	}
	return reply, err
}

// jobText is the text of a job's answer so far.
type jobText struct {
	nc          *nats.Conn
	subject     string
	question    uuid.UUID
	text        strings.Builder
	published   int // bytes of the current text
	unpublished int // deltas that were not published
}

// add adds a delta and publishes the text when it has grown by a sixteenth, so that the bytes
// published stay in proportion to the text.
func (j *jobText) add(d wire.LLMDelta) {
	if d.Restart {
		j.text.Reset()
		j.published = 0
	}
	j.text.WriteString(d.Text)
	j.unpublished++
	if n := j.text.Len(); n >= j.published+max(16, j.published/16) {
		j.publish()
	}
}

// end publishes the rest of the text.
func (j *jobText) end() {
	if j.unpublished > 0 {
		j.publish()
	}
}

func (j *jobText) publish() {
	if j.published, j.unpublished = j.text.Len(), 0; j.published > maxJobText {
		return
	}
	publish(j.nc, j.subject, wire.QuestionText{Envelope: wire.Header(), Question: j.question, Text: j.text.String()}, j.question)
}
