package apiserver

// Labels of questions, and preferences learnt from them. The query workers ask the language models;
// the labels are in the store.

import (
	"context"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/internal/bus"
	"github.com/sluice-rag/sluice/internal/preference"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// preferenceAPI implements httpapi.Preferences.
type preferenceAPI struct{ questionAPI }

// Label implements httpapi.Preferences.
func (a preferenceAPI) Label(ctx context.Context, p schema.Principal, collection uuid.UUID, l schema.Labelling) (schema.Labelled, error) {
	if err := l.Check(); err != nil {
		return schema.Labelled{}, err
	}
	ctx, cancel := a.waitContext(ctx)
	defer cancel()
	reply, err := bus.Request[wire.LabelReply](ctx, a.nats, wire.LabelSubject, wire.LabelRequest{Envelope: wire.Header(), Principal: p, Collection: collection,
		Question: l.Question, Answers: l.Answers, Texts: l.Texts, Calls: l.Calls, Cost: l.Cost, Deadline: deadline(ctx)}, bus.SignedBy(a.signer))
	if err != nil {
		return schema.Labelled{}, clientError(ctx, err)
	}
	if reply.Error != nil && reply.Calls > 0 { // the calls have cost something
		reply.Problem = reply.Error.Message
		return reply.Labelled, nil
	}
	if reply.Error != nil {
		return schema.Labelled{}, reply.Error
	}
	return reply.Labelled, nil
}

// Learn implements httpapi.Preferences.
func (a preferenceAPI) Learn(ctx context.Context, p schema.Principal, collection uuid.UUID, model string, seed uint64) (schema.Preference, error) {
	samples, model, graph, err := a.LabelledTexts(ctx, p.Tenant, collection, model)
	if err != nil {
		return schema.Preference{}, err
	}
	learnt, err := preference.Fit(samples, seed)
	if err != nil {
		return schema.Preference{}, err
	}
	return a.KeepPreference(ctx, p, collection, model, graph, learnt)
}
