package httpapi

// Scopes in single collections. A route needs its scope in the whole tenant, unless it is listed
// here with the subject that determines its collection: then the scope in that collection is
// enough. A collection in which the caller has no scope does not exist for it.

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
)

// subject determines the collection that a request is about.
type subject string

const (
	// Path parameters.
	subjectCollection subject = "collection"
	subjectDocument   subject = "document"
	subjectQuestion   subject = "question"
	subjectJob        subject = "job"
	// subjectHandler: the handler determines the collection with ofCollection, or shows only items
	// of allowed collections.
	subjectHandler subject = "handler"
	// subjectNone: the request is about no collection; the scope in any collection is enough.
	subjectNone subject = "none"
)

// subjects are the operations, by id, for which a scope in a collection is enough.
var subjects = map[string]subject{
	"get-collection": subjectCollection, "change-collection": subjectCollection, "retry-collection": subjectCollection,
	"list-documents": subjectCollection, "upload-documents": subjectCollection, "upload-content": subjectCollection, "compare-documents": subjectCollection,
	"rebuild-collection": subjectCollection, "get-rebuild": subjectCollection, "cancel-rebuild": subjectCollection, "recluster-collection": subjectCollection,
	"reparse-collection": subjectCollection, "get-reparse": subjectCollection, "cancel-reparse": subjectCollection,
	"choose-plan": subjectCollection, "list-plan-choices": subjectCollection, "get-plan-choice": subjectCollection, "cancel-plan-choice": subjectCollection,
	"apply-plan-choice": subjectCollection, "repeat-plan-choice": subjectCollection,
	"label-question": subjectCollection, "learn-preference": subjectCollection, "list-preferences": subjectCollection, "forget-preferences": subjectCollection,

	"get-document": subjectDocument, "change-document": subjectDocument, "delete-document": subjectDocument, "retry-document": subjectDocument,
	"list-sections": subjectDocument, "get-place": subjectDocument, "get-content": subjectDocument,

	"get-question": subjectQuestion, "get-receipt": subjectQuestion, "rate-answer": subjectQuestion, "delete-rating": subjectQuestion,
	"get-job": subjectJob, "follow-job": subjectJob, "cancel-job": subjectJob,

	"search": subjectHandler, "ask": subjectHandler, "start-job": subjectHandler, "create-chat-completion": subjectHandler,
	"list-models": subjectHandler, "get-model": subjectHandler, "get-model-with-plan": subjectHandler,
	"list-collections": subjectHandler, "list-questions": subjectHandler, "list-jobs": subjectHandler, "list-ratings": subjectHandler,

	// The answer to judge is in the request.
	"judge-answer": subjectNone,

	"whoami": subjectNone, "list-plans": subjectNone, "get-plan": subjectNone, "check-plan": subjectNone, "list-receipt-keys": subjectNone,
	// These show only the caller's own sessions and key.
	"list-sessions": subjectNone, "end-person-session": subjectNone, "rotate-key": subjectNone,
}

// missingScope returns the error for a missing scope.
func missingScope(scope schema.Scope, where string) error {
	if scope == "" {
		return huma.Error403Forbidden("the API key is limited to single collections; this needs a key for the whole tenant")
	}
	return huma.Error403Forbidden("the API key lacks the " + string(scope) + " scope" + where)
}

// subjectNotFound returns the error for something that does not exist, or is in a collection in
// which the caller has no scope.
func subjectNotFound(what subject, ref string) error {
	return fmt.Errorf("no %s %v: %w", what, cut(ref, 200), schema.ErrNotFound)
}

// allowed returns p with the scopes that it has for the request's subject, or an error if scope is
// not among them. An empty scope stands for every scope.
func (s *server) allowed(ctx huma.Context, p schema.Principal, scope schema.Scope) (schema.Principal, error) {
	what := subjects[ctx.Operation().OperationID]
	if len(p.Collections) == 0 {
		if scope != "" && !p.Has(scope) {
			return p, missingScope(scope, "")
		}
		return p, nil
	}
	everywhere := p.HasOrAny(scope)
	switch what {
	case "":
		if !everywhere && scope != "" && p.HasSomewhere(scope) {
			return p, huma.Error403Forbidden("the API key has the " + string(scope) + " scope only in single collections; this needs it in the whole tenant")
		}
		if !everywhere {
			return p, missingScope(scope, "")
		}
		return p, nil
	case subjectHandler, subjectNone:
		if !everywhere && !p.HasSomewhere(scope) {
			return p, missingScope(scope, "")
		}
		return p, nil
	}
	ref := ctx.Param(string(what))
	collection, err := s.collectionOf(ctx.Context(), p, what, ref)
	switch {
	case errors.Is(err, schema.ErrNotFound) && everywhere:
		return p, nil // the handler returns the error
	case errors.Is(err, schema.ErrNotFound):
		return p, subjectNotFound(what, ref)
	case err != nil:
		return p, err
	}
	in, err := within(p, scope, collection)
	switch {
	case errors.Is(err, schema.ErrNotFound):
		return p, subjectNotFound(what, ref)
	case err != nil && what == subjectDocument:
		// Only principals who can see a document may learn that it exists.
		if _, hidden := s.Documents.Document(ctx.Context(), in, uuid.MustParse(ref)); hidden != nil {
			return p, subjectNotFound(what, ref)
		}
	}
	return in, err
}

// within returns p with the scopes that it has in a collection; schema.ErrNotFound if it has none.
func within(p schema.Principal, scope schema.Scope, collection uuid.UUID) (schema.Principal, error) {
	p = p.In(collection)
	switch {
	case len(p.Collections) > 0 && len(p.Scopes) == 0:
		return p, schema.ErrNotFound
	case scope != "" && !p.Has(scope):
		return p, missingScope(scope, " in collection "+collection.String())
	}
	return p, nil
}

// collectionOf returns the collection of the subject that a path names.
func (s *server) collectionOf(ctx context.Context, p schema.Principal, what subject, ref string) (uuid.UUID, error) {
	if what == subjectCollection {
		return s.Collections.ResolveCollection(ctx, p, ref)
	}
	id, err := uuid.Parse(ref)
	if err != nil || len(ref) != 36 {
		return uuid.Nil, schema.ErrNotFound
	}
	switch what {
	case subjectDocument:
		p.Scopes = []schema.Scope{schema.ScopeIngest} // regardless of labels, which the handler checks
		d, err := s.Documents.Document(ctx, p, id)
		return d.CollectionID, err
	case subjectQuestion:
		q, err := s.Questions.AskedQuestion(ctx, p, id)
		return q.Collection, err
	case subjectJob:
		job, err := s.Questions.Job(ctx, p, id)
		return job.Collection, err
	}
	return uuid.Nil, fmt.Errorf("no request names its collection by a %s", what)
}

// ofCollection resolves the collection of a request that needs the query scope. It returns p with
// the scopes that it has there.
func (s *server) ofCollection(ctx context.Context, p schema.Principal, ref string) (schema.Principal, uuid.UUID, error) {
	collection, err := s.Collections.ResolveCollection(ctx, p, ref)
	if len(p.Collections) == 0 {
		return p, collection, err
	}
	in := p
	if err == nil {
		in, err = within(p, schema.ScopeQuery, collection)
	}
	if errors.Is(err, schema.ErrNotFound) {
		err = subjectNotFound(subjectCollection, ref)
	}
	return in, collection, err
}

// queried removes the items of collections that p may not query.
func queried[T any](p schema.Principal, items []T, of func(T) uuid.UUID) []T {
	ids, all := p.OnlyIn(schema.ScopeQuery)
	if all {
		return items
	}
	return slices.DeleteFunc(items, func(item T) bool { return !slices.Contains(ids, of(item)) })
}
