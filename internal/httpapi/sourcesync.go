package httpapi

// Sources: places that collections are kept in step with.

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

// SyncSources stores sources, and controls their runs.
type SyncSources interface {
	SourceDrivers(ctx context.Context) ([]schema.SourceDriver, error)
	// ResolveSource returns the id of a source by its name or id.
	ResolveSource(ctx context.Context, p schema.Principal, nameOrID string) (uuid.UUID, error)
	CreateSource(ctx context.Context, p schema.Principal, collection uuid.UUID, n api.NewSource) (schema.Source, error)
	// ListSources lists the sources of a collection; uuid.Nil is any.
	ListSources(ctx context.Context, p schema.Principal, collection uuid.UUID, q schema.PageQuery) ([]schema.Source, string, error)
	Source(ctx context.Context, p schema.Principal, id uuid.UUID) (schema.Source, error)
	ChangeSource(ctx context.Context, p schema.Principal, id uuid.UUID, c api.SourceChange) (schema.Source, error)
	RemoveSource(ctx context.Context, p schema.Principal, id uuid.UUID, keepDocuments bool) (schema.Source, error)
	PreviewSource(ctx context.Context, p schema.Principal, id uuid.UUID, limit int) (schema.SourcePreview, error)
	RunSource(ctx context.Context, p schema.Principal, id uuid.UUID) (schema.Source, error)
	CancelSource(ctx context.Context, p schema.Principal, id uuid.UUID) (schema.Source, error)
	PauseSource(ctx context.Context, p schema.Principal, id uuid.UUID) (schema.Source, error)
	ResumeSource(ctx context.Context, p schema.Principal, id uuid.UUID) (schema.Source, error)
	// ConfirmSource confirms the deletions of the run that asks for it; uuid.Nil is the newest run.
	ConfirmSource(ctx context.Context, p schema.Principal, id, run uuid.UUID) (schema.Source, error)
	SourceRuns(ctx context.Context, p schema.Principal, id uuid.UUID, q schema.PageQuery) ([]schema.SourceRun, string, error)
	SourceItems(ctx context.Context, p schema.Principal, id uuid.UUID, q schema.PageQuery) ([]schema.SourceItem, string, error)
	SourceSkipped(ctx context.Context, p schema.Principal, id uuid.UUID, q schema.PageQuery) ([]schema.SourceSkipped, string, error)
}

// InSource is the path parameter of routes under a source.
type InSource struct {
	Source string `path:"source" minLength:"1" maxLength:"128" doc:"Name or id."`
}

func (s *server) routeSyncSources() {
	tags := []string{"Sources"}
	const path = "/v1/sources/{source}"
	route(s, huma.Operation{OperationID: "list-source-drivers", Method: http.MethodGet, Path: "/v1/source-drivers", Tags: tags,
		Summary: "List the kinds of sources, with their settings"},
		schema.ScopeAdmin, func(ctx context.Context, _ schema.Principal, _ *struct{}) (*reply[api.SourceDrivers], error) {
			items, err := s.SyncSources.SourceDrivers(ctx)
			return replyTo(api.SourceDrivers{Items: append([]schema.SourceDriver{}, items...)}, err)
		})
	route(s, huma.Operation{OperationID: "create-source", Method: http.MethodPost, Path: "/v1/sources", Tags: tags, DefaultStatus: http.StatusCreated,
		Summary: "Keep a collection in step with a folder or another system", Description: "It runs at once, unless it is paused. Its documents have external ids of their own, and metadata: source, path and url."},
		schema.ScopeAdmin, func(ctx context.Context, p schema.Principal, in *struct{ Body api.NewSource }) (*reply[schema.Source], error) {
			collection, err := s.Collections.ResolveCollection(ctx, p, in.Body.Collection)
			if err != nil {
				return nil, err
			}
			return replyTo(s.SyncSources.CreateSource(ctx, p, collection, in.Body))
		})
	route(s, huma.Operation{OperationID: "list-sources", Method: http.MethodGet, Path: "/v1/sources", Tags: tags, Summary: "List sources, newest first"},
		schema.ScopeAdmin, func(ctx context.Context, p schema.Principal, in *struct {
			Paging
			Collection string `query:"collection" maxLength:"128" doc:"Only those of this one, by name or id."`
		}) (*reply[api.Page[schema.Source]], error) {
			var collection uuid.UUID
			if in.Collection != "" {
				var err error
				if collection, err = s.Collections.ResolveCollection(ctx, p, in.Collection); err != nil {
					return nil, err
				}
			}
			items, next, err := s.SyncSources.ListSources(ctx, p, collection, in.query())
			return list(items, next, err, identity[schema.Source])
		})
	s.sourceAction("get-source", http.MethodGet, path, "Show a source: what it does, its newest run, and what it waits for", "", repeatRun, SyncSources.Source)
	route(s, huma.Operation{OperationID: "change-source", Method: http.MethodPatch, Path: path, Tags: tags, Summary: "Change a source",
		Description: "A run that is under way ends, and the next one begins at once and lists everything, unless the source is paused."},
		schema.ScopeAdmin, func(ctx context.Context, p schema.Principal, in *struct {
			InSource
			Body api.SourceChange
		}) (*reply[schema.Source], error) {
			id, err := s.SyncSources.ResolveSource(ctx, p, in.Source)
			if err != nil {
				return nil, err
			}
			return replyTo(s.SyncSources.ChangeSource(ctx, p, id, in.Body))
		})
	route(s, huma.Operation{OperationID: "delete-source", Method: http.MethodDelete, Path: path, Tags: tags, DefaultStatus: http.StatusAccepted,
		Summary: "Remove a source, and its documents unless they are kept", Description: "A source-worker does it, and the source is gone when it has."},
		schema.ScopeAdmin, func(ctx context.Context, p schema.Principal, in *struct {
			InSource
			KeepDocuments bool `query:"keep_documents" doc:"Its documents stay in the collection."`
		}) (*reply[schema.Source], error) {
			id, err := s.SyncSources.ResolveSource(ctx, p, in.Source)
			if err != nil {
				return nil, err
			}
			return replyTo(s.SyncSources.RemoveSource(ctx, p, id, in.KeepDocuments))
		})
	route(s, huma.Operation{OperationID: "preview-source", Method: http.MethodGet, Path: path + "/preview", Tags: tags, Summary: "Show what a run would find now",
		Description: "Lists the source's items and writes nothing."},
		schema.ScopeAdmin, func(ctx context.Context, p schema.Principal, in *struct {
			InSource
			Limit int `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"Items that are shown at most, and things skipped."`
		}) (*reply[schema.SourcePreview], error) {
			id, err := s.SyncSources.ResolveSource(ctx, p, in.Source)
			if err != nil {
				return nil, err
			}
			return replyTo(s.SyncSources.PreviewSource(ctx, p, id, in.Limit))
		})
	s.sourceAction("run-source", http.MethodPost, path+"/run", "Run a source now", "One that waits after a failure tries at once; one that asks lists again.",
		repeatReplay, SyncSources.RunSource)
	s.sourceAction("cancel-source", http.MethodPost, path+"/cancel", "End the run that is under way", "What it did stays.", repeatRun, SyncSources.CancelSource)
	s.sourceAction("pause-source", http.MethodPost, path+"/pause", "Stop a source where it is", "", repeatRun, SyncSources.PauseSource)
	s.sourceAction("resume-source", http.MethodPost, path+"/resume", "Have a source go on that was paused or stopped", "", repeatRun, SyncSources.ResumeSource)
	route(s, huma.Operation{OperationID: "confirm-source", Method: http.MethodPost, Path: path + "/confirm", Tags: tags, Summary: "Delete the documents of deleted items, however many they are",
		Description: "A complete listing that is much shorter than the one before deletes nothing without this."},
		schema.ScopeAdmin, func(ctx context.Context, p schema.Principal, in *struct {
			InSource
			Body api.SourceConfirm
		}) (*reply[schema.Source], error) {
			id, err := s.SyncSources.ResolveSource(ctx, p, in.Source)
			if err != nil {
				return nil, err
			}
			var run uuid.UUID
			if in.Body.Run != "" {
				if run, err = schema.ParseID("body.run", in.Body.Run); err != nil {
					return nil, err
				}
			}
			return replyTo(s.SyncSources.ConfirmSource(ctx, p, id, run))
		})
	sourceList(s, "list-source-runs", path+"/runs", "List a source's runs, newest first", "50 are kept.", SyncSources.SourceRuns)
	sourceList(s, "list-source-items", path+"/items", "List the items of a source", "", SyncSources.SourceItems)
	sourceList(s, "list-source-skipped", path+"/skipped", "List what the newest run left out, with reasons", "The first 1,000 are kept.", SyncSources.SourceSkipped)
}

// sourceAction registers a route whose only parameter is the source.
func (s *server) sourceAction(id, method, path, summary, description string, mode repeat,
	do func(SyncSources, context.Context, schema.Principal, uuid.UUID) (schema.Source, error)) {
	route(s, huma.Operation{OperationID: id, Method: method, Path: path, Summary: summary, Description: description, Tags: []string{"Sources"}, Metadata: mode.metadata()},
		schema.ScopeAdmin, func(ctx context.Context, p schema.Principal, in *InSource) (*reply[schema.Source], error) {
			source, err := s.SyncSources.ResolveSource(ctx, p, in.Source)
			if err != nil {
				return nil, err
			}
			return replyTo(do(s.SyncSources, ctx, p, source))
		})
}

// sourceList registers a route that lists something of a source.
func sourceList[T any](s *server, id, path, summary, description string,
	read func(SyncSources, context.Context, schema.Principal, uuid.UUID, schema.PageQuery) ([]T, string, error)) {
	route(s, huma.Operation{OperationID: id, Method: http.MethodGet, Path: path, Summary: summary, Description: description, Tags: []string{"Sources"}},
		schema.ScopeAdmin, func(ctx context.Context, p schema.Principal, in *struct {
			InSource
			Paging
		}) (*reply[api.Page[T]], error) {
			source, err := s.SyncSources.ResolveSource(ctx, p, in.Source)
			if err != nil {
				return nil, err
			}
			items, next, err := read(s.SyncSources, ctx, p, source, in.query())
			return list(items, next, err, identity[T])
		})
}
