package llm

// What a gateway sends while an answer is made. It is for eyes: what counts is
// the reply, which alone has been checked.

import (
	"context"
	"strings"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// Streamer is a provider that can say its answer while it makes it.
type Streamer interface {
	Provider
	// Stream is Complete; what it has of the answer goes to say, piece by piece,
	// on the caller's goroutine. A piece that restarts makes void those before.
	Stream(ctx context.Context, r wire.LLMRequest, say func(wire.LLMDelta)) (Completion, error)
}

// Deltas takes the pieces of answers that are being made. Send must not wait for
// whoever reads them; whether they arrive is nobody's concern.
type Deltas interface {
	Send(subject string, d wire.LLMDelta)
}

// deltas are the pieces of one answer. A nil one takes them and does nothing.
type deltas struct {
	to      Deltas
	subject string
	sent    strings.Builder // since the last restart
	void    bool            // what was said
}

// deltasOf returns where the pieces of a request's answer go; nil is nowhere.
func (g *Gateway) deltasOf(r wire.LLMRequest) (*deltas, error) {
	switch {
	case r.Stream == "":
		return nil, nil
	case !wire.IsInbox(r.Stream):
		return nil, schema.Invalid("stream", "%.100q is no inbox", r.Stream)
	case g.deltas == nil || r.Task != wire.TaskAnswer && r.Task != wire.TaskBackground:
		return nil, nil
	}
	return &deltas{to: g.deltas, subject: r.Stream}, nil
}

func (d *deltas) say(x wire.LLMDelta) {
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

// again tells that another provider begins anew.
func (d *deltas) again() {
	if d != nil {
		d.void = d.void || d.sent.Len() > 0
	}
}

// end makes what was said the text that the reply has.
func (d *deltas) end(text string) {
	if d == nil || !d.void && strings.TrimSpace(d.sent.String()) == text {
		return
	}
	d.again()
	d.say(wire.LLMDelta{Envelope: wire.Header(), Text: text})
}
