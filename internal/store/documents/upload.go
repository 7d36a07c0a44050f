package documents

// This file takes in documents: their bytes, a new version each and the
// messages that queue it, in one transaction, so that a document is either
// queued or not there at all.

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
)

const (
	maxUploads   = 1000 // documents of one call
	maxFileName  = 1024 // bytes
	maxMediaType = 255  // bytes
)

// item is one upload on its way into the store.
type item struct {
	schema.Upload
	index       int // in the caller's list
	content     *content
	sha256      []byte
	fingerprint string
	attributes  attributes
	reason      *schema.Reason // why it fails at once

	// Set in the transaction.
	document uuid.UUID
	number   int
	version  uuid.UUID
	fresh    bool // the document counts as new: it was not there, or deleted
	result   schema.Uploaded
}

// Upload takes in documents, all or none: each becomes a new version of the
// document with its external id, queued for processing. An upload with the
// fingerprint of the document's current version changes nothing. One over the
// size limit becomes a failed version, without its bytes. The contents are
// read first, whole; results are in the order of uploads. Errors:
// schema.FieldError, schema.ErrNotFound for the collection, schema.ErrQuota.
func (s *DocumentStore) Upload(ctx context.Context, p schema.Principal, collection uuid.UUID, uploads []schema.Upload) (_ []schema.Uploaded, err error) {
	if len(uploads) == 0 || len(uploads) > maxUploads {
		return nil, schema.Invalid("documents", "has %d documents; 1 to %d are allowed", len(uploads), maxUploads)
	}
	var spool spool
	defer func() {
		if closing := spool.close(); err == nil && closing != nil {
			err = fmt.Errorf("close the temporary file of an upload: %w", closing)
		}
	}()
	items := make([]*item, len(uploads))
	for i, u := range uploads {
		if items[i], err = s.take(&spool, i, u); err != nil {
			return nil, err
		}
	}
	// Documents are inserted and given ids in one order by everyone.
	slices.SortFunc(items, func(a, b *item) int { return strings.Compare(a.ExternalID, b.ExternalID) })
	for i := 1; i < len(items); i++ {
		if items[i].ExternalID == items[i-1].ExternalID {
			return nil, schema.Invalid(fmt.Sprintf("documents[%d].external_id", max(items[i].index, items[i-1].index)), "%q comes twice in one upload", items[i].ExternalID)
		}
	}
	err = s.db.AsTenant(ctx, p.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		w := uploadRun{tx: tx, principal: p, collection: collection, trace: store.Traceparent(ctx)}
		return w.run(ctx, items)
	})
	if err != nil {
		return nil, fmt.Errorf("upload %d documents: %w", len(items), err)
	}
	out := make([]schema.Uploaded, len(items))
	for _, it := range items {
		out[it.index] = it.result
	}
	return out, nil
}

// take validates one upload and reads its content.
func (s *DocumentStore) take(spool *spool, index int, u schema.Upload) (*item, error) {
	field := func(name string) string { return fmt.Sprintf("documents[%d].%s", index, name) }
	it := &item{Upload: u, index: index}
	for _, f := range []struct {
		name, text string
		min, max   int
	}{
		{"external_id", u.ExternalID, 1, schema.MaxExternalID},
		{"file_name", u.FileName, 0, maxFileName},
		{"media_type", u.MediaType, 0, maxMediaType},
	} {
		if err := schema.CheckLength(field(f.name), f.text, f.min, f.max); err != nil {
			return nil, err
		}
	}
	if err := schema.CheckCharacters(field("title"), u.Title, 0, schema.MaxTitle); err != nil {
		return nil, err
	}
	if err := it.attributes.setLabels(field("labels"), u.Labels); err != nil {
		return nil, err
	}
	if err := it.attributes.setMetadata(field("metadata"), u.Metadata); err != nil {
		return nil, err
	}
	if u.Content == nil {
		return nil, schema.Invalid(field("content"), "is missing")
	}
	var given []byte
	var err error
	if u.SHA256 != "" {
		if given, err = schema.DecodeSHA256(field("sha256"), u.SHA256); err != nil {
			return nil, err
		}
	}
	if it.content, err = spool.read(u.Content, s.db.Options().MaxDocumentBytes); err != nil {
		if errors.Is(err, syscall.ENOSPC) { // of the directory for temporary files
			err = errors.Join(schema.ErrStorageFull, err)
		}
		return nil, fmt.Errorf("document %q: %w", u.ExternalID, err)
	}
	it.sha256 = it.content.sha256[:]
	switch {
	case given == nil:
	case it.content.tooLarge:
		// Only its beginning was read. The sender's word stands for the whole,
		// so that it recognises this upload; no bytes are kept under it.
		it.sha256 = given
	case !bytes.Equal(given, it.sha256):
		return nil, schema.Invalid(field("sha256"), "is %s, but that of the content is %x", u.SHA256, it.sha256)
	}
	it.fingerprint, err = schema.Fingerprint(hex.EncodeToString(it.sha256), schema.Attributes{Title: u.Title, Labels: u.Labels, Metadata: u.Metadata})
	if err != nil {
		return nil, schema.Invalid(field("metadata"), "cannot be stored: %v", err)
	}
	if it.content.tooLarge {
		it.reason = &schema.Reason{
			Code:    schema.ReasonTooLarge,
			Message: fmt.Sprintf("larger than %s, the limit for one document", schema.FormatBytes(s.db.Options().MaxDocumentBytes)),
		}
	}
	return it, nil
}
