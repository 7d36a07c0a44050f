package httpapi

// Access to documents of sources whose permissions are followed.

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

// SourceAccess maps the principals of sources to people here, and takes pushed changes of
// permissions.
type SourceAccess interface {
	// SourcePrincipals lists a source's users and groups: all, or only those mapped to somebody
	// here.
	SourcePrincipals(ctx context.Context, p schema.Principal, source uuid.UUID, mapped bool, q schema.PageQuery) ([]schema.SourcePrincipal, string, error)
	MapPrincipal(ctx context.Context, p schema.Principal, source uuid.UUID, principal string, subject schema.AccessSubject) (schema.AccessMapping, error)
	UnmapPrincipal(ctx context.Context, p schema.Principal, source uuid.UUID, principal string, subject schema.AccessSubject) error
	PushAccess(ctx context.Context, p schema.Principal, source uuid.UUID, push schema.AccessPush) (schema.AccessPushed, error)
	ExplainAccess(ctx context.Context, p schema.Principal, document uuid.UUID, subject schema.AccessSubject) (schema.AccessExplanation, error)
}

func (s *server) routeSourceAccess() {
	tags := []string{"Sources"}
	const path = "/v1/sources/{source}"
	route(s, huma.Operation{OperationID: "list-source-principals", Method: http.MethodGet, Path: path + "/principals", Tags: tags,
		Summary: "List the users and groups of a source, with who they are here", Description: "The source follows permissions."},
		schema.ScopeAdmin, func(ctx context.Context, p schema.Principal, in *struct {
			InSource
			Paging
			Mapped bool `query:"mapped" doc:"Only those that somebody here is."`
		}) (*reply[api.Page[schema.SourcePrincipal]], error) {
			id, err := s.SyncSources.ResolveSource(ctx, p, in.Source)
			if err != nil {
				return nil, err
			}
			items, next, err := s.SourceAccess.SourcePrincipals(ctx, p, id, in.Mapped, in.query())
			return list(items, next, err, identity[schema.SourcePrincipal])
		})
	route(s, huma.Operation{OperationID: "map-principal", Method: http.MethodPut, Path: path + "/mappings", Tags: tags,
		Summary: "Say that somebody is a user or a group of a source", Description: "They see what it does there, within a second. Nothing follows from names."},
		schema.ScopeAdmin, func(ctx context.Context, p schema.Principal, in *struct {
			InSource
			Body api.NewAccessMapping
		}) (*reply[schema.AccessMapping], error) {
			id, err := s.SyncSources.ResolveSource(ctx, p, in.Source)
			if err != nil {
				return nil, err
			}
			return replyTo(s.SourceAccess.MapPrincipal(ctx, p, id, in.Body.Principal, in.Body.AccessSubject))
		})
	route(s, huma.Operation{OperationID: "unmap-principal", Method: http.MethodDelete, Path: path + "/mappings", Tags: tags, DefaultStatus: http.StatusNoContent,
		Summary: "Say that somebody is not a user or a group of a source", Description: "Within a second they see nothing by it."},
		schema.ScopeAdmin, func(ctx context.Context, p schema.Principal, in *struct {
			InSource
			Principal string            `query:"principal" required:"true" minLength:"1" maxLength:"512" doc:"Its id in the source."`
			Kind      schema.AccessKind `query:"kind" required:"true" enum:"person,key,group,asker"`
			Value     string            `query:"value" required:"true" minLength:"1" maxLength:"1100" doc:"Of a person the issuer, \"|\", and their sub; of a key its id; else the name."`
		}) (*struct{}, error) {
			id, err := s.SyncSources.ResolveSource(ctx, p, in.Source)
			if err != nil {
				return nil, err
			}
			return nil, s.SourceAccess.UnmapPrincipal(ctx, p, id, in.Principal, schema.AccessSubject{Kind: in.Kind, Value: in.Value})
		})
	route(s, huma.Operation{OperationID: "push-access", Method: http.MethodPost, Path: path + "/access", Tags: tags, Metadata: accessBody.with(repeatRun.metadata()),
		Summary: "Tell what changed in a source's permissions, before the source runs",
		Description: "What is taken away holds within a second. Documents get new labels at once, 500 of them or for 5 seconds; a run of the source, " +
			"which begins at once, gives the rest. What is told counts until the source has listed it itself."},
		schema.ScopeAdmin, func(ctx context.Context, p schema.Principal, in *struct {
			InSource
			Body schema.AccessPush
		}) (*reply[schema.AccessPushed], error) {
			id, err := s.SyncSources.ResolveSource(ctx, p, in.Source)
			if err != nil {
				return nil, err
			}
			return replyTo(s.SourceAccess.PushAccess(ctx, p, id, in.Body))
		})
	route(s, huma.Operation{OperationID: "explain-access", Method: http.MethodGet, Path: "/v1/access/explain", Tags: tags,
		Summary: "Tell why somebody may see a document, or may not", Description: "Names one of person, key, group and asker."},
		schema.ScopeAdmin, func(ctx context.Context, p schema.Principal, in *struct {
			Document uuid.UUID `query:"document" required:"true" format:"uuid"`
			Person   string    `query:"person" maxLength:"1100" doc:"Of the identity provider: the issuer, \"|\", and their sub."`
			Key      string    `query:"key" maxLength:"36" doc:"The id of an API key, or of a person's row among them."`
			Group    string    `query:"group" maxLength:"1100" doc:"A group of keys and people."`
			Asker    string    `query:"asker" maxLength:"1100" doc:"Whom X-Sluice-Person names."`
		}) (*reply[schema.AccessExplanation], error) {
			var subject []schema.AccessSubject
			for _, one := range []schema.AccessSubject{{Kind: schema.AccessPerson, Value: in.Person}, {Kind: schema.AccessKey, Value: in.Key},
				{Kind: schema.AccessGroup, Value: in.Group}, {Kind: schema.AccessAsker, Value: in.Asker}} {
				if one.Value != "" {
					subject = append(subject, one)
				}
			}
			if len(subject) != 1 {
				return nil, schema.Invalid("query", "names %d of person, key, group and asker; name exactly one of them", len(subject))
			}
			if err := schema.CheckText("query."+string(subject[0].Kind), subject[0].Value); err != nil {
				return nil, err
			}
			recordOf(ctx).Target = in.Document.String()
			return replyTo(s.SourceAccess.ExplainAccess(ctx, p, in.Document, subject[0]))
		})
}
