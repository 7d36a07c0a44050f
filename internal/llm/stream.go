package llm

// This file sends an answer piece by piece while it is made. The pieces are for display only: only
// the reply is checked.

import (
	"context"
	"strings"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// Streamer is a provider that can stream its answer while it makes it.
type Streamer interface {
	Provider
	// Stream is Complete. It also calls onDelta with each piece of the answer, on the caller's
	// goroutine. A piece with Restart voids those before it.
	Stream(ctx context.Context, r wire.LLMRequest, onDelta func(wire.LLMDelta)) (Completion, error)
}

// Deltas takes the pieces of answers that are being made. Send must not wait for the receiver.
// Delivery is not guaranteed.
type Deltas interface {
	Send(subject string, d wire.LLMDelta)
}

// deltas sends the pieces of one answer. Its methods do nothing on nil.
type deltas struct {
	to      Deltas
	subject string
	sent    strings.Builder // since the last restart
	void    bool            // what was sent is void
}

// deltasOf returns the receiver of the pieces of a request's answer; nil if there is none.
func (g *Gateway) deltasOf(r wire.LLMRequest) (*deltas, error) {
	switch {
	case r.Stream == "":
		return nil, nil
	case !wire.IsInbox(r.Stream):
		return nil, schema.Invalid("stream", "%.100q is not a NATS inbox", r.Stream)
	case g.deltas == nil || r.Task != wire.TaskAnswer && r.Task != wire.TaskBackground:
		return nil, nil
	}
	return &deltas{to: g.deltas, subject: r.Stream}, nil
}

func (d *deltas) send(x wire.LLMDelta) {
	if d == nil {
		return
	}
	if x.Restart = x.Restart || d.void; x.Restart {
		d.sent.Reset()
	}
	d.void = false
	d.sent.WriteString(x.Text)
	d.to.Send(d.subject, x)
}

// again voids what was sent, because another provider answers.
func (d *deltas) again() {
	if d != nil {
		d.void = d.void || d.sent.Len() > 0
	}
}

// end sends the reply's text if it differs from what was sent.
func (d *deltas) end(text string) {
	if d == nil || !d.void && strings.TrimSpace(d.sent.String()) == text {
		return
	}
	d.again()
	d.send(wire.LLMDelta{Envelope: wire.Header(), Text: text})
}
