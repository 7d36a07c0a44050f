package apiclient

import (
	"context"
	"iter"
	"net/http"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema/api"
)

// Sessions lists sessions of people, newest first: the caller's own, or with the admin scope all of
// the tenant.
func (c *Client) Sessions(ctx context.Context) iter.Seq2[api.PersonSession, error] {
	return pages[api.PersonSession](ctx, c, "/v1/sessions", nil)
}

// EndSession ends a session of a person.
func (c *Client) EndSession(ctx context.Context, id uuid.UUID) error {
	return c.json(ctx, http.MethodDelete, "/v1/sessions/"+id.String(), nil, nil, nil)
}
