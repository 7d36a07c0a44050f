package httpapi

// Sessions of people who signed in at the provider. For people on whose behalf a key asks see
// person.go.

import (
	"context"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

// PeopleSessions are the sessions of people.
type PeopleSessions interface {
	// Sessions lists sessions of p's tenant, newest first: all, for which p needs the admin scope,
	// or p's own.
	Sessions(ctx context.Context, p schema.Principal, all bool, q schema.PageQuery) ([]schema.PersonSession, string, error)
	// EndSession ends one of p's own sessions, or with the admin scope any of the tenant.
	EndSession(ctx context.Context, p schema.Principal, id uuid.UUID) error
	// Session returns the id of a secret's session; schema.ErrNotFound if the secret is an API key.
	Session(ctx context.Context, secret string) (uuid.UUID, error)
	// SignOut ends a secret's session, if it has one.
	SignOut(ctx context.Context, secret string) error
}

func (s *server) routePeopleSessions() {
	tags := []string{"Sessions"}
	route(s, huma.Operation{OperationID: "list-sessions", Method: http.MethodGet, Path: "/v1/sessions", Summary: "List sessions of people", Tags: tags,
		Description: "Of people who signed in at the provider, newest first, those that are over included for 30 days: " +
			"one's own, or with the `admin` scope all of the tenant. " +
			"A browser that signed in with an API key has none here."},
		"", func(ctx context.Context, p schema.Principal, in *struct {
			Mine bool `query:"mine" doc:"One's own alone."`
			Paging
		}) (*reply[api.Page[api.PersonSession]], error) {
			current, err := s.currentSession(ctx)
			if err != nil {
				return nil, err
			}
			items, next, err := s.PeopleSessions.Sessions(ctx, p, p.Has(schema.ScopeAdmin) && !in.Mine, in.query())
			return list(items, next, err, func(x schema.PersonSession) api.PersonSession {
				return api.PersonSession{ID: x.ID, Key: x.Key, Name: x.Name, CreatedAt: x.CreatedAt, ExpiresAt: x.ExpiresAt, EndedAt: x.EndedAt, LastUsedAt: x.LastUsedAt,
					Address: x.Address, Agent: x.Agent, Current: x.ID == current}
			})
		})
	route(s, huma.Operation{OperationID: "end-person-session", Method: http.MethodDelete, Path: "/v1/sessions/{session}", Summary: "End a session of a person", Tags: tags, DefaultStatus: http.StatusNoContent,
		Description: "One's own, or with the `admin` scope anybody's of the tenant. It ends at once in the process that is asked, within seconds in others."},
		"", func(ctx context.Context, p schema.Principal, in *struct {
			Session uuid.UUID `path:"session" format:"uuid"`
		}) (*struct{}, error) {
			return nil, s.PeopleSessions.EndSession(ctx, p, in.Session)
		})
}

// currentSession returns the session that a request is made with; uuid.Nil if it is made with a
// key.
func (s *server) currentSession(ctx context.Context) (uuid.UUID, error) {
	c, _ := ctx.Value(credentialKey{}).(credential)
	id, err := s.PeopleSessions.Session(ctx, c.key)
	if errors.Is(err, schema.ErrNotFound) {
		return uuid.Nil, nil
	}
	return id, err
}

// signOut ends the session in a browser's cookie, if a person signed in with it.
func (s *server) signOut(ctx context.Context, key string) error {
	if s.PeopleSessions == nil {
		return nil
	}
	if err := s.PeopleSessions.SignOut(ctx, key); err != nil {
		return authProblem(ctx, err)
	}
	return nil
}
