package apiclient

import (
	"context"
	"net/http"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

// Label has the language model asked a question with known answers.
func (c *Client) Label(ctx context.Context, collection string, q api.LabelledQuestion) (schema.Labelled, error) {
	return post[schema.Labelled](ctx, c, collectionPath(collection)+"/labels", q)
}

// LearnPreference trains a head of llm_prefer from the labels.
func (c *Client) LearnPreference(ctx context.Context, collection string, n api.NewPreference) (schema.Preference, error) {
	return post[schema.Preference](ctx, c, collectionPath(collection)+"/preferences", n)
}

// Preferences lists what was learnt about language models on a collection.
func (c *Client) Preferences(ctx context.Context, collection string) ([]schema.Preference, error) {
	out, err := get[api.Page[schema.Preference]](ctx, c, collectionPath(collection)+"/preferences", nil)
	return out.Items, err
}

// ForgetPreferences deletes what was learnt about language models on a collection.
func (c *Client) ForgetPreferences(ctx context.Context, collection string) error {
	return c.json(ctx, http.MethodDelete, collectionPath(collection)+"/preferences", nil, nil, nil)
}
