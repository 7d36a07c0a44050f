package follow

// What is done with items: they are fetched, described or deleted.

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"path"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/sluice-rag/sluice/internal/source"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// maxTries is how often an item may fail while others of its source succeed. After that it is
// skipped until the next run.
const maxTries = 5

// maxItemID bounds an item's id, in bytes.
const maxItemID = 1024

// processItems does what items need. An item that fails for a reason of its own is skipped; if all
// items fail, the source counts as failed.
func (f *Follower) processItems(ctx context.Context, in wire.SourceSync, job SourceJob, c source.Connector, items []Item) error {
	var mu sync.Mutex
	var failed []string
	var exhausted []Item
	var first error
	settled := 0
	group, work := errgroup.WithContext(ctx)
	group.SetLimit(max(1, f.options.Fetches))
	for _, item := range items {
		group.Go(func() error {
			if work.Err() != nil {
				return work.Err()
			}
			outcome, err := f.processItem(work, job, c, item)
			if err == nil {
				err = f.store.RecordOutcome(work, in, outcome)
			}
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				settled++
			case work.Err() == nil && isTransient(err):
				failed = append(failed, item.ID)
				if first == nil {
					first = err
				}
				if item.Tries >= maxTries {
					exhausted = append(exhausted, item)
				}
			default:
				return err
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if len(failed) == 0 {
		return nil
	}
	if settled == 0 && len(exhausted) < len(failed) {
		if err := f.store.PostponeItems(ctx, in, failed); err != nil {
			return err
		}
		return first
	}
	// Either only these items fail, or the source has failed meanwhile: another listing shows
	// which.
	if len(exhausted) > 0 {
		if _, err := c.List(ctx, ""); err != nil {
			return &connectorError{err}
		}
		for _, item := range exhausted {
			if err := f.store.RecordOutcome(ctx, in, ItemOutcome{Item: item.ID, Outcome: Skipped, Retry: true,
				Reason: fmt.Sprintf("failed %d times: %s", item.Tries+1, text(first.Error()))}); err != nil {
				return err
			}
		}
	}
	return f.store.PostponeItems(ctx, in, failed)
}

// isTransient reports whether err is an item's and may be temporary, and does not stop the whole
// source.
func isTransient(err error) bool {
	var sourceErr *connectorError
	var limit *source.RateLimitError
	var field *source.FieldError
	return errors.As(err, &sourceErr) && !errors.As(err, &limit) && !errors.As(err, &field) && !errors.Is(err, source.ErrRefused)
}

// processItem does what an item needs.
func (f *Follower) processItem(ctx context.Context, job SourceJob, c source.Connector, item Item) (ItemOutcome, error) {
	switch item.Action {
	case ActionDelete:
		return ItemOutcome{Item: item.ID, Outcome: Deleted}, f.delete(ctx, job, item)
	case ActionDescribe:
		return ItemOutcome{Item: item.ID, Outcome: Described}, f.describe(ctx, job, item)
	}
	if item.Moved { // first, so that the same content at another path makes no new version
		if err := f.describe(ctx, job, item); err != nil {
			return ItemOutcome{}, err
		}
	}
	return f.fetch(ctx, job, c, item)
}

// delete deletes the document of an item, if it still exists.
func (f *Follower) delete(ctx context.Context, job SourceJob, item Item) error {
	document := item.Document
	if document == nil { // an upload may have been stored without its outcome
		found, err := f.deleter.DocumentNamed(ctx, principal(job), job.Collection, externalID(job.ID, item.ID))
		switch {
		case errors.Is(err, schema.ErrNotFound):
			return nil
		case err != nil:
			return fmt.Errorf("look for a document of %q: %w", item.Path, err)
		}
		document = &found.ID
	}
	if err := f.deleter.DeleteDocument(ctx, principal(job), *document); err != nil && !errors.Is(err, schema.ErrNotFound) {
		return fmt.Errorf("delete the document of %q: %w", item.Path, err)
	}
	return nil
}

// describe updates the metadata and the labels of an item's document.
func (f *Follower) describe(ctx context.Context, job SourceJob, item Item) error {
	if item.Document == nil {
		return nil
	}
	p, labels, err := f.principalAndLabels(ctx, job, item.ID)
	if err != nil {
		return err
	}
	metadata := metadataOf(job, item.Item)
	_, err = f.documents.UpdateDocument(ctx, p, *item.Document, schema.DocumentChange{Metadata: &metadata, Labels: &labels})
	if err != nil && !errors.Is(err, schema.ErrNotFound) {
		return fmt.Errorf("describe the document of %q: %w", item.Path, err)
	}
	return nil
}

// fetch fetches the content of an item and uploads it.
func (f *Follower) fetch(ctx context.Context, job SourceJob, c source.Connector, item Item) (ItemOutcome, error) {
	listed := item.Version
	skip := func(reason string) (ItemOutcome, error) {
		return ItemOutcome{Item: item.ID, Outcome: Skipped, Version: listed, Reason: text(reason)}, nil
	}
	download, err := c.Fetch(ctx, item.Item)
	if err == nil && download.NotModified && item.Version != item.Fetched { // compared with the listed version, which was never fetched
		item.Version = ""
		download, err = c.Fetch(ctx, item.Item)
	}
	var itemErr *source.ItemError
	switch {
	case errors.Is(err, source.ErrGone):
		return ItemOutcome{Item: item.ID, Outcome: Deleted}, f.delete(ctx, job, item)
	case errors.As(err, &itemErr):
		return skip(itemErr.Reason)
	case err != nil:
		return ItemOutcome{}, &connectorError{err}
	}
	out := ItemOutcome{Item: item.ID, Outcome: Fetched, Version: listed}
	if download.Version != "" {
		out.Version = download.Version
	}
	if download.NotModified {
		out.Outcome = Kept
		return out, nil
	}
	p, labels, err := f.principalAndLabels(ctx, job, item.ID)
	if err != nil {
		return ItemOutcome{}, errors.Join(err, download.Body.Close())
	}
	body := &content{from: download.Body, remaining: f.maxBytes(job), sum: sha256.New()}
	uploaded, err := f.documents.Upload(ctx, p, job.Collection, []schema.Upload{{
		ExternalID: externalID(job.ID, item.ID), FileName: fileName(item.Path), MediaType: mediaType(download.MediaType), Content: body,
		Labels: labels, Metadata: metadataOf(job, item.Item),
	}})
	if closeErr := download.Body.Close(); body.err == nil && closeErr != nil && err != nil {
		body.err = closeErr
	}
	switch {
	case body.exceeded:
		return skip(tooLarge(f.maxBytes(job)))
	case errors.As(body.err, &itemErr):
		return skip(itemErr.Reason)
	case body.err != nil:
		return ItemOutcome{}, &connectorError{body.err}
	case errors.Is(err, schema.ErrQuota), errors.Is(err, schema.ErrStorageFull):
		return ItemOutcome{}, &connectorError{err} // the run waits for it as for a source that fails
	case errors.Is(err, schema.ErrNotFound):
		return ItemOutcome{}, &connectorError{&source.FieldError{Field: "collection", Reason: "is gone"}}
	case errors.Is(err, schema.ErrInvalid):
		return skip(err.Error())
	case err != nil:
		return ItemOutcome{}, fmt.Errorf("take in %q: %w", item.Path, err)
	}
	out.Document, out.SHA256, out.Bytes = uploaded[0].Document, body.sum.Sum(nil), body.read
	return out, nil
}

// content reads an item's content from the source: it counts and hashes the bytes, and fails when
// they exceed the limit.
type content struct {
	from      io.Reader
	remaining int64
	sum       hash.Hash
	read      int64
	exceeded  bool
	err       error
}

var errTooLarge = errors.New("the item is too large")

func (c *content) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	c.read += int64(n)
	c.sum.Write(p[:n])
	if c.remaining -= int64(n); c.remaining < 0 {
		c.exceeded = true
		return 0, errTooLarge
	}
	if err != nil && !errors.Is(err, io.EOF) {
		c.err = err
	}
	return n, err
}

// principal returns the principal that a source acts as in its tenant.
func principal(job SourceJob) schema.Principal {
	return schema.Principal{Tenant: job.Tenant, Name: "source " + job.Name, Scopes: []schema.Scope{schema.ScopeIngest},
		Holds: &schema.SourceAttempt{Source: job.ID, Attempt: job.Attempt}}
}

// externalID returns the external id of an item's document. Only this source uses such ids.
func externalID(sourceID uuid.UUID, item string) string {
	id := schema.SourceDocument + sourceID.String() + "/" + item
	if len(id) > schema.MaxExternalID {
		sum := sha256.Sum256([]byte(item))
		id = schema.SourceDocument + sourceID.String() + "/sha256:" + hex.EncodeToString(sum[:])
	}
	return id
}

// metadataOf returns the metadata of an item's document.
func metadataOf(job SourceJob, item source.Item) schema.Metadata {
	m := schema.Metadata{"source": job.Name, "path": item.Path}
	if item.URL != "" {
		m["url"] = item.URL
	}
	return m
}

// fileName returns the file name, which is a hint for the parser.
func fileName(itemPath string) string {
	name := path.Base(itemPath)
	if len(name) > schema.MaxFileName { // keep the end, which has the extension
		name = strings.ToValidUTF8(name[len(name)-schema.MaxFileName:], "")
	}
	return name
}

func mediaType(value string) string {
	if len(value) > schema.MaxMediaType || !utf8.ValidString(value) || strings.ContainsRune(value, 0) {
		return ""
	}
	return value
}

// invalidReason says why an item can't be used, or returns "".
func invalidReason(item source.Item) string {
	switch {
	case item.ID == "" || item.Path == "":
		return "has no name"
	case len(item.ID) > maxItemID || len(item.Path) > 4*maxItemID:
		return "has a name that is too long"
	case text(item.ID) != item.ID || text(item.Path) != item.Path:
		return "has a name that is not text"
	}
	return ""
}

func tooLarge(limit int64) string {
	return fmt.Sprintf("larger than %s, the limit for an item", schema.FormatBytes(limit))
}

// text returns s in a form that Postgres accepts, shortened to a readable length.
func text(s string) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
	if len(s) > 4*maxItemID {
		s = strings.ToValidUTF8(s[:4*maxItemID], "")
	}
	return s
}
