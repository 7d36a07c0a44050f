package apiclient

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"strconv"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

// sourcePath returns the path of a source, given by name or id.
func sourcePath(source string) string { return "/v1/sources/" + url.PathEscape(source) }

// SourceDrivers lists the drivers of sources.
func (c *Client) SourceDrivers(ctx context.Context) (api.SourceDrivers, error) {
	return get[api.SourceDrivers](ctx, c, "/v1/source-drivers", nil)
}

// Sources lists the tenant's sources: of one collection, or of all if collection is empty.
func (c *Client) Sources(ctx context.Context, collection string) iter.Seq2[schema.Source, error] {
	query := url.Values{}
	if collection != "" {
		query.Set("collection", collection)
	}
	return pages[schema.Source](ctx, c, "/v1/sources", query)
}

// CreateSource makes a source, which keeps a collection in step with a folder or another system.
func (c *Client) CreateSource(ctx context.Context, n api.NewSource) (schema.Source, error) {
	return post[schema.Source](ctx, c, "/v1/sources", n)
}

// Source returns a source.
func (c *Client) Source(ctx context.Context, source string) (schema.Source, error) {
	return get[schema.Source](ctx, c, sourcePath(source), nil)
}

// ChangeSource changes the settings of a source that change has.
func (c *Client) ChangeSource(ctx context.Context, source string, change api.SourceChange) (schema.Source, error) {
	var out schema.Source
	return out, c.json(ctx, http.MethodPatch, sourcePath(source), nil, change, &out)
}

// RemoveSource removes a source, and its documents unless they are kept.
func (c *Client) RemoveSource(ctx context.Context, source string, keepDocuments bool) (schema.Source, error) {
	var out schema.Source
	return out, c.json(ctx, http.MethodDelete, sourcePath(source), url.Values{"keep_documents": {strconv.FormatBool(keepDocuments)}}, nil, &out)
}

// PreviewSource returns what a run would find now.
func (c *Client) PreviewSource(ctx context.Context, source string, limit int) (schema.SourcePreview, error) {
	return get[schema.SourcePreview](ctx, c, sourcePath(source)+"/preview", url.Values{"limit": {strconv.Itoa(limit)}})
}

// Actions of SourceAction.
const (
	SourceRun    = "run"
	SourceCancel = "cancel"
	SourcePause  = "pause"
	SourceResume = "resume"
)

// SourceAction runs, cancels, pauses or resumes a source.
func (c *Client) SourceAction(ctx context.Context, source, action string) (schema.Source, error) {
	return post[schema.Source](ctx, c, sourcePath(source)+"/"+action, struct{}{})
}

// ConfirmSource confirms the deletions that a run asks for; an empty run is the newest.
func (c *Client) ConfirmSource(ctx context.Context, source, run string) (schema.Source, error) {
	return post[schema.Source](ctx, c, sourcePath(source)+"/confirm", api.SourceConfirm{Run: run})
}

// SourceSkipped lists what the newest run left out.
func (c *Client) SourceSkipped(ctx context.Context, source string) iter.Seq2[schema.SourceSkipped, error] {
	return pages[schema.SourceSkipped](ctx, c, sourcePath(source)+"/skipped", nil)
}

// SourceItems lists the items of a source.
func (c *Client) SourceItems(ctx context.Context, source string) iter.Seq2[schema.SourceItem, error] {
	return pages[schema.SourceItem](ctx, c, sourcePath(source)+"/items", nil)
}

// SourceRuns lists a source's runs, newest first.
func (c *Client) SourceRuns(ctx context.Context, source string) iter.Seq2[schema.SourceRun, error] {
	return pages[schema.SourceRun](ctx, c, sourcePath(source)+"/runs", nil)
}

// SourcePrincipals lists the users and groups of a source: all, or only those mapped to somebody
// here.
func (c *Client) SourcePrincipals(ctx context.Context, source string, mapped bool) iter.Seq2[schema.SourcePrincipal, error] {
	return pages[schema.SourcePrincipal](ctx, c, sourcePath(source)+"/principals", url.Values{"mapped": {strconv.FormatBool(mapped)}})
}

// MapPrincipal maps a principal of a source to somebody here.
func (c *Client) MapPrincipal(ctx context.Context, source, principal string, who schema.AccessSubject) (schema.AccessMapping, error) {
	var out schema.AccessMapping
	return out, c.json(ctx, http.MethodPut, sourcePath(source)+"/mappings", nil, api.NewAccessMapping{Principal: principal, AccessSubject: who}, &out)
}

// UnmapPrincipal deletes a mapping.
func (c *Client) UnmapPrincipal(ctx context.Context, source, principal string, who schema.AccessSubject) error {
	query := url.Values{"principal": {principal}, "kind": {string(who.Kind)}, "value": {who.Value}}
	return c.json(ctx, http.MethodDelete, sourcePath(source)+"/mappings", query, nil, nil)
}

// ExplainAccess explains why somebody may or may not see a document.
func (c *Client) ExplainAccess(ctx context.Context, document string, who schema.AccessSubject) (schema.AccessExplanation, error) {
	return get[schema.AccessExplanation](ctx, c, "/v1/access/explain", url.Values{"document": {document}, string(who.Kind): {who.Value}})
}
