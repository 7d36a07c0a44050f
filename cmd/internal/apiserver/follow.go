package apiserver

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// FollowJob implements httpapi.Questions. Changes of state come as events, steps and text from the
// worker that runs them.
func (a questionAPI) FollowJob(ctx context.Context, p schema.Principal, id uuid.UUID, onText func(text string)) (<-chan struct{}, error) {
	changed := make(chan struct{}, 1)
	hint := func() {
		select {
		case changed <- struct{}{}:
		default: // an earlier hint is still unread, which is enough
		}
	}
	for subject, handler := range map[string]nats.MsgHandler{
		wire.StageSubject(p.Tenant, id): func(*nats.Msg) { hint() },
		wire.TextSubject(p.Tenant, id): func(m *nats.Msg) {
			// A message that cannot be decoded, such as one of a newer worker, is left out: the job
			// has its result.
			if t, err := wire.Decode[wire.QuestionText](m.Data); err == nil && t.Question == id {
				onText(t.Text)
			}
		},
		wire.QuestionEventsOf(p.Tenant): func(m *nats.Msg) {
			// An event that cannot be decoded may be about this job.
			if e, err := wire.Decode[wire.QuestionEvent](m.Data); err != nil || e.Question == id {
				hint()
			}
		},
	} {
		sub, err := a.nats.Subscribe(subject, handler)
		if err != nil {
			return nil, fmt.Errorf("follow job %s: %w", id, err)
		}
		context.AfterFunc(ctx, func() { _ = sub.Unsubscribe() }) // closing the connection ends it too
	}
	return changed, nil
}
