package apiserver

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// FollowJob implements httpapi.Questions: states are told as events, steps and text
// by the worker that takes them.
func (a questionAPI) FollowJob(ctx context.Context, p schema.Principal, id uuid.UUID, tell func(text string)) (<-chan struct{}, error) {
	changed := make(chan struct{}, 1)
	hint := func() {
		select {
		case changed <- struct{}{}:
		default: // one that nobody has looked at says as much
		}
	}
	for subject, heard := range map[string]nats.MsgHandler{
		wire.StageSubject(p.Tenant, id): func(*nats.Msg) { hint() },
		wire.TextSubject(p.Tenant, id): func(m *nats.Msg) {
			// One that cannot be read, such as a newer worker's, is left out: the job has
			// its result.
			if t, err := wire.Decode[wire.QuestionText](m.Data); err == nil && t.Question == id {
				tell(t.Text)
			}
		},
		wire.QuestionEventsOf(p.Tenant): func(m *nats.Msg) {
			// One that cannot be read may be of this job.
			if e, err := wire.Decode[wire.QuestionEvent](m.Data); err != nil || e.Question == id {
				hint()
			}
		},
	} {
		sub, err := a.nats.Subscribe(subject, heard)
		if err != nil {
			return nil, fmt.Errorf("follow job %s: %w", id, err)
		}
		context.AfterFunc(ctx, func() { _ = sub.Unsubscribe() }) // the connection's end ends it too
	}
	return changed, nil
}
