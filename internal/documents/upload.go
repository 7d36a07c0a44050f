// Package documents checks and reads uploads: which names, labels, metadata and sizes documents may
// have. A store writes what was checked.
package documents

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

	"github.com/sluice-rag/sluice/schema"
)

// Store keeps documents.
type Store interface {
	// AddVersions makes each version the newest of its document, either all or none. versions are
	// ordered by external id, and results are in their order. The error is schema.ErrNotFound for
	// an unknown collection, and schema.ErrQuota.
	AddVersions(ctx context.Context, p schema.Principal, collection uuid.UUID, versions []*NewVersion) ([]schema.Uploaded, error)
	// ChangeAttributes sets the attributes of a document that c has.
	ChangeAttributes(ctx context.Context, p schema.Principal, id uuid.UUID, c schema.DocumentChange, to Attributes) (schema.Document, error)
}

// NewVersion is an upload that was checked and read.
type NewVersion struct {
	ExternalID, Title, FileName, MediaType string
	Attributes                             Attributes
	Content                                *Content
	SHA256                                 []byte
	Fingerprint                            string
	// Reason is why the version fails at once; nil: it is queued.
	Reason *schema.Reason

	index int // in the caller's list
}

// Options are limits for uploads.
type Options struct {
	// MaxBytes bounds one document; 100 MB by default. A larger one is recorded as failed, without
	// its bytes.
	MaxBytes int64
	// CheckDisk returns an error when a disk is too full for more; nil: unknown.
	CheckDisk func() error
}

// Uploads stores uploaded documents.
type Uploads struct {
	store   Store
	options Options
}

// New returns Uploads to a store.
func New(s Store, o Options) *Uploads {
	if o.MaxBytes <= 0 {
		o.MaxBytes = 100 << 20
	}
	return &Uploads{s, o}
}

// Upload stores documents, either all or none: each becomes a new version of the document with its
// external id, queued for processing. An upload with the fingerprint of the document's current
// version changes nothing. One that exceeds the size limit becomes a failed version, without its
// bytes. All contents are read before anything is stored; results are in the order of uploads. The
// error is a schema.FieldError, schema.ErrNotFound for an unknown collection, or schema.ErrQuota.
func (u *Uploads) Upload(ctx context.Context, p schema.Principal, collection uuid.UUID, uploads []schema.Upload) (_ []schema.Uploaded, err error) {
	if u.options.CheckDisk != nil {
		// Leaves room for processing what is already stored.
		if err := u.options.CheckDisk(); err != nil {
			return nil, err
		}
	}
	if len(uploads) == 0 || len(uploads) > schema.MaxUploads {
		return nil, schema.Invalid("documents", "has %d documents; 1 to %d are allowed", len(uploads), schema.MaxUploads)
	}
	var spool spool
	defer func() {
		if closing := spool.close(); err == nil && closing != nil {
			err = fmt.Errorf("close the temporary file of an upload: %w", closing)
		}
	}()
	versions := make([]*NewVersion, len(uploads))
	for i, one := range uploads {
		if versions[i], err = take(&spool, u.options.MaxBytes, i, one, p.Writes != nil); err != nil {
			return nil, err
		}
	}
	// All transactions insert documents, and so assign their ids, in one order.
	slices.SortFunc(versions, func(a, b *NewVersion) int { return strings.Compare(a.ExternalID, b.ExternalID) })
	for i := 1; i < len(versions); i++ {
		if a, b := versions[i-1], versions[i]; a.ExternalID == b.ExternalID {
			return nil, schema.Invalid(fmt.Sprintf("documents[%d].external_id", max(a.index, b.index)), "%q comes twice in one upload", b.ExternalID)
		}
	}
	done, err := u.store.AddVersions(ctx, p, collection, versions)
	if err != nil {
		return nil, fmt.Errorf("upload %d documents: %w", len(versions), err)
	}
	out := make([]schema.Uploaded, len(done))
	for i, v := range versions {
		out[v.index] = done[i]
	}
	return out, nil
}

// take checks one upload and reads its content, up to limit bytes.
func take(spool *spool, limit int64, index int, u schema.Upload, reserved bool) (*NewVersion, error) {
	field := func(name string) string { return fmt.Sprintf("documents[%d].%s", index, name) }
	v := &NewVersion{ExternalID: u.ExternalID, Title: u.Title, FileName: u.FileName, MediaType: u.MediaType, index: index}
	for _, f := range []struct {
		name, text string
		min, max   int
	}{
		{"external_id", u.ExternalID, 1, schema.MaxExternalID},
		{"file_name", u.FileName, 0, schema.MaxFileName},
		{"media_type", u.MediaType, 0, schema.MaxMediaType},
	} {
		if err := schema.CheckLength(field(f.name), f.text, f.min, f.max); err != nil {
			return nil, err
		}
	}
	if err := schema.CheckCharacters(field("title"), u.Title, 0, schema.MaxTitle); err != nil {
		return nil, err
	}
	if err := v.Attributes.setLabels(field("labels"), u.Labels, reserved); err != nil {
		return nil, err
	}
	if err := v.Attributes.setMetadata(field("metadata"), u.Metadata); err != nil {
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
	if v.Content, err = spool.read(u.Content, limit); err != nil {
		if errors.Is(err, syscall.ENOSPC) { // in the directory for temporary files
			err = errors.Join(schema.ErrStorageFull, err)
		}
		return nil, fmt.Errorf("document %q: %w", u.ExternalID, err)
	}
	v.SHA256 = v.Content.sha256[:]
	switch {
	case given == nil:
	case v.Content.TooLarge:
		// Only the beginning was read. The hash from the sender is stored, so that the sender
		// recognises this upload; no bytes are stored under it.
		v.SHA256 = given
	case !bytes.Equal(given, v.SHA256):
		return nil, schema.Invalid(field("sha256"), "is %s, but that of the content is %x", u.SHA256, v.SHA256)
	}
	v.Fingerprint, err = schema.Fingerprint(hex.EncodeToString(v.SHA256), schema.Attributes{Title: u.Title, Labels: u.Labels, Metadata: u.Metadata})
	if err != nil {
		return nil, schema.Invalid(field("metadata"), "cannot be stored: %v", err)
	}
	if v.Content.TooLarge {
		v.Reason = &schema.Reason{Code: schema.ReasonTooLarge, Message: fmt.Sprintf("larger than %s, the limit for one document", schema.FormatBytes(limit))}
	}
	return v, nil
}

// UpdateDocument changes the labels and metadata of a document's live version and its newest
// version at once, without processing them again.
func (u *Uploads) UpdateDocument(ctx context.Context, p schema.Principal, id uuid.UUID, c schema.DocumentChange) (schema.Document, error) {
	var to Attributes
	if c.Labels != nil {
		if err := to.setLabels("labels", *c.Labels, p.Writes != nil); err != nil {
			return schema.Document{}, err
		}
	}
	if c.Metadata != nil {
		if err := to.setMetadata("metadata", *c.Metadata); err != nil {
			return schema.Document{}, err
		}
	}
	return u.store.ChangeAttributes(ctx, p, id, c, to)
}
