package queryworker

// This file tells whoever follows a job the text of its answer while it is made.
// The gateway sends pieces to the worker that asked; the worker sends on what there
// is so far, so that who comes late, or misses one, has all of it with the next. A
// worker that is killed takes its pieces along: the one that repeats the step gets
// the reply from the ledger, which comes as one piece.

import (
	"context"
	"strings"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/sluice-rag/sluice/internal/bus"
	"github.com/sluice-rag/sluice/schema/wire"
)

// maxJobText bounds what is told of one answer, in bytes; of a longer one the rest
// comes with the result.
const maxJobText = 64 << 10

// told asks the gateway for a job's answer, and tells of it meanwhile.
func (g gateway) told(ctx context.Context, in wire.QuestionInput, r wire.LLMRequest) (wire.LLMReply, error) {
	text := jobText{nc: g.nc, subject: wire.TextSubject(in.Tenant, in.Question), question: in.Question}
	reply, err := bus.RequestStream[wire.LLMReply](ctx, g.nc, wire.LLMSubject, func(stream string) any {
		r.Stream = wire.StreamSubject(stream, wire.PartText)
		return r
	}, func(part string, data []byte) {
		// A piece that cannot be read may be a newer gateway's; the reply has its text.
		if d, err := wire.Decode[wire.LLMDelta](data); err == nil && part == wire.PartText {
			text.add(d)
		}
	}, bus.SignedBy(g.signer))
	if err == nil && reply.Error == nil {
		text.end()
	}
	return reply, err
}

// jobText is what there is so far of a job's answer.
type jobText struct {
	nc       *nats.Conn
	subject  string
	question uuid.UUID
	text     strings.Builder
	told     int // bytes, of the text as it is
	since    int // pieces that were not told
}

// add tells of a piece when enough has come since the last time: what is told is
// the whole text, and growing by a share each time keeps its sum in proportion.
func (j *jobText) add(d wire.LLMDelta) {
	if d.Restart {
		j.text.Reset()
		j.told = 0
	}
	j.text.WriteString(d.Text)
	j.since++
	if n := j.text.Len(); n >= j.told+max(16, j.told/16) {
		j.tell()
	}
}

// end tells what add kept back.
func (j *jobText) end() {
	if j.since > 0 {
		j.tell()
	}
}

func (j *jobText) tell() {
	if j.told, j.since = j.text.Len(), 0; j.told > maxJobText {
		return
	}
	publish(j.nc, j.subject, wire.QuestionText{Envelope: wire.Header(), Question: j.question, Text: j.text.String()}, j.question)
}
