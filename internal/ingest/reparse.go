package ingest

// The steps of ReparseCollection. They parse the bytes of live versions again. If the result
// differs from what is stored, they queue a new version of the document with it, which is processed
// like an upload: the live version answers until all of the new one is written. Each step may run
// again, and may run twice at once.

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"golang.org/x/sync/errgroup"

	"github.com/sluice-rag/sluice/internal/durable/heartbeat"
	"github.com/sluice-rag/sluice/internal/ingest/batch"
	"github.com/sluice-rag/sluice/internal/text"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// Reparses is what a run reads and writes. Every method that takes a Reparse returns
// batch.ErrReparseOver when that run is over.
type Reparses interface {
	// ReparseLeft lists up to limit documents that the run has still to deal with, in the order of
	// their ids. writing counts the documents that it queued and that are not yet written. left
	// omits documents whose live version is newer than the run, and documents with a newer version
	// in progress.
	ReparseLeft(ctx context.Context, in wire.Reparse, limit int) (left []batch.Reparsable, writing int, err error)
	// BeginReparse notes that a document's parse begins. found is false when there is nothing to
	// do: the document was dealt with, or has no live version any more.
	BeginReparse(ctx context.Context, in wire.Reparse, document uuid.UUID) (doc batch.Reparsed, found bool, err error)
	// AbandonReparse takes back what BeginReparse noted, because the process that began the parse
	// is alive.
	AbandonReparse(ctx context.Context, in wire.Reparse, document uuid.UUID) error
	// EndReparse notes that a document keeps its text: because it parses to the same text, or for
	// reason if that is not nil.
	EndReparse(ctx context.Context, in wire.Reparse, document uuid.UUID, reason *schema.Reason) error
	// QueueReparse queues a new version of a document whose live version is version, with that
	// one's bytes and attributes, and with the blocks that they were parsed to.
	QueueReparse(ctx context.Context, in wire.Reparse, document, version uuid.UUID, parsed []byte) error
	// StoredVersion reads a version's text.
	StoredVersion(ctx context.Context, tenant, version uuid.UUID) (batch.StoredVersion, error)
	Blobs(ctx context.Context, tenant uuid.UUID, hashes [][]byte) (map[string]batch.Blob, error)
	// FinishReparse ends the run if nothing that it queued is unfinished.
	FinishReparse(ctx context.Context, in wire.Reparse) (done bool, err error)
}

const (
	// maxWriting is the maximum number of documents of a run that are queued at a time. Their
	// blocks wait in the store.
	maxWriting = 256
	// reparsePart and reparseBytes bound the documents of a part.
	reparsePart  = 32
	reparseBytes = 8 << 20
)

// Reparser implements the steps of ReparseCollection.
type Reparser struct {
	runs     Reparses
	parser   Parser
	parallel int
}

// NewReparser returns the steps. At most parallel documents are parsed at a time.
func NewReparser(r Reparses, p Parser, parallel int) *Reparser {
	return &Reparser{runs: r, parser: p, parallel: max(1, parallel)}
}

// step runs one step under a span, with heartbeats.
func (r *Reparser) step(ctx context.Context, name string, in wire.Reparse, do func(context.Context) error) error {
	ctx, span := tracer.Start(ctx, "reparse "+name, trace.WithAttributes(
		attribute.String("sluice.tenant", in.Tenant.String()),
		attribute.String("sluice.collection", in.Collection.String()),
		attribute.Int("sluice.reparse", in.Number)))
	defer span.End()
	ctx = wire.ForTenant(ctx, in.Tenant)
	stop := heartbeat.Start(ctx, heartbeat.Every)
	err := do(ctx)
	stop()
	if err == nil {
		return nil
	}
	if errors.Is(err, batch.ErrReparseOver) {
		return temporal.NewNonRetryableApplicationError(err.Error(), wire.ErrorReparseOver, nil)
	}
	span.RecordError(err)
	span.SetStatus(codes.Error, err.Error())
	slog.WarnContext(ctx, "a step of parsing documents again failed; trying again", "step", name, "tenant", in.Tenant,
		"collection", in.Collection, "reparse", in.Number, "try", activity.GetInfo(ctx).Attempt, "error", err)
	return fmt.Errorf("reparse %s: %w", name, err)
}

// List finds documents to parse again and divides them into parts.
func (r *Reparser) List(ctx context.Context, in wire.Reparse) (out wire.ReparseParts, err error) {
	err = r.step(ctx, "list", in, func(ctx context.Context) error {
		left, writing, err := r.runs.ReparseLeft(ctx, in, maxWriting)
		if err != nil {
			return fmt.Errorf("find documents to parse again: %w", err)
		}
		room := max(0, maxWriting-writing)
		out.Wait = room == 0 && len(left) > 0
		var size int64
		for _, d := range left[:min(room, len(left))] {
			last := len(out.Parts) - 1
			if last < 0 || len(out.Parts[last].Documents) == reparsePart || size+d.Bytes > reparseBytes {
				out.Parts, size = append(out.Parts, wire.ReparsePart{Reparse: in}), 0
				last++
			}
			out.Parts[last].Documents = append(out.Parts[last].Documents, d.Document)
			size += d.Bytes
		}
		return nil
	})
	return out, err
}

// Finish reports whether the run is done.
func (r *Reparser) Finish(ctx context.Context, in wire.Reparse) (done bool, err error) {
	err = r.step(ctx, "finish", in, func(ctx context.Context) (err error) {
		if done, err = r.runs.FinishReparse(ctx, in); err != nil {
			return fmt.Errorf("end the run: %w", err)
		}
		if done {
			slog.InfoContext(ctx, "the documents of a collection were parsed again", "tenant", in.Tenant, "collection", in.Collection)
		}
		return nil
	})
	return done, err
}

// Parse parses a part's documents again: first several at a time, then, one by one, those over
// which a parser or a worker died before.
func (r *Reparser) Parse(ctx context.Context, in wire.ReparsePart) error {
	return r.step(ctx, "parse", in.Reparse, func(ctx context.Context) error {
		var mu sync.Mutex
		var suspects []uuid.UUID
		group, working := errgroup.WithContext(ctx)
		group.SetLimit(r.parallel)
		for _, document := range in.Documents {
			group.Go(func() error {
				postpone, err := r.one(working, in.Reparse, document, false)
				if postpone {
					mu.Lock()
					defer mu.Unlock()
					suspects = append(suspects, document)
				}
				return err
			})
		}
		if err := group.Wait(); err != nil {
			return err
		}
		for _, document := range suspects {
			if _, err := r.one(ctx, in.Reparse, document, true); err != nil {
				return err
			}
		}
		return nil
	})
}

// one parses one document again. postpone means that a parser or a worker died over it before, and
// that it has to be parsed alone.
func (r *Reparser) one(ctx context.Context, in wire.Reparse, document uuid.UUID, alone bool) (postpone bool, err error) {
	for {
		doc, found, err := r.runs.BeginReparse(ctx, in, document)
		if err != nil || !found {
			return false, wrap(err, "begin to parse document %s again", document)
		}
		outcome := "failed"
		var reason *schema.Reason
		switch {
		case doc.Newer != nil:
			reason = &schema.Reason{Code: doc.Newer.Code, Message: "its newest version failed, retry or replace that one: " + doc.Newer.Message}
		case doc.Begun >= maxCrashes:
			reason = &schema.Reason{Code: schema.ReasonCrashed, Message: fmt.Sprintf("the parser crashed %d times on it", doc.Begun)}
		case doc.Begun > 0 && !alone:
			return true, r.abandon(ctx, in, document)
		default:
			outcome, reason, err = r.again(ctx, in, doc)
		}
		if err != nil {
			return false, errors.Join(err, r.abandon(ctx, in, document))
		}
		if reason != nil && reason.Code == schema.ReasonCrashed && doc.Begun < maxCrashes {
			slog.WarnContext(ctx, "the parser crashed", "tenant", in.Tenant, "document", doc.Name, "deaths", doc.Begun+1, "reason", reason.Message)
			alone = true // only the child process that parsed this file died
			continue
		}
		if outcome != "changed" {
			if reason != nil {
				reason.Message = clip(reason.Message)
			}
			if err := r.runs.EndReparse(ctx, in, document, reason); err != nil {
				return false, fmt.Errorf("note what became of document %s: %w", document, err)
			}
		}
		meters.reparsed.Add(ctx, 1, metric.WithAttributes(attribute.String("outcome", outcome)))
		return false, nil
	}
}

func wrap(err error, what string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf(what+": %w", append(args, err)...)
}

// abandon takes the note of a parse back, even if ctx has ended.
func (r *Reparser) abandon(ctx context.Context, in wire.Reparse, document uuid.UUID) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endLimit)
	defer cancel()
	err := r.runs.AbandonReparse(ctx, in, document)
	if errors.Is(err, batch.ErrReparseOver) {
		return nil
	}
	return wrap(err, "take back the parse of document %s", document)
}

// again parses a document, compares the result with what is stored, and queues it if it differs.
func (r *Reparser) again(ctx context.Context, in wire.Reparse, doc batch.Reparsed) (outcome string, reason *schema.Reason, err error) {
	blobs, err := r.runs.Blobs(ctx, in.Tenant, [][]byte{doc.SHA256})
	if err != nil {
		return "", nil, fmt.Errorf("read the bytes of version %s: %w", doc.Version, err)
	}
	blob, kept := blobs[string(doc.SHA256)]
	if problem := unreadable(blob, kept); problem != "" {
		return "failed", &schema.Reason{Code: schema.ReasonBroken, Message: problem}, nil
	}
	parsed, err := r.parser.Parse(ctx, doc.Name, doc.MediaType, doc.Language, blob.Data)
	var failure *FileError
	switch {
	case errors.As(err, &failure):
		return "failed", &failure.Reason, nil
	case err != nil:
		return "", nil, fmt.Errorf("parse version %s: %w", doc.Version, err)
	}
	parsed.Title = cmp.Or(doc.Title, parsed.Title)
	sections, reason := parsedSections(parsed)
	if reason != nil {
		return "failed", reason, nil
	}
	stored, err := r.runs.StoredVersion(ctx, in.Tenant, doc.Version)
	if err != nil {
		return "", nil, fmt.Errorf("read the text of version %s: %w", doc.Version, err)
	}
	if sameText(stored, parsed.Title, sections) {
		return "unchanged", nil, nil
	}
	if was, is := textBytes(stored.Sections), textBytes(sections); 2*is < was {
		return "failed", &schema.Reason{Code: schema.ReasonRejected, Message: fmt.Sprintf("it parses to %d bytes of text, %d are stored, which stay: "+
			"see whether something is not installed here that read it before; to replace the text all the same, delete the document and upload it again", is, was)}, nil
	}
	artifact, err := batch.Pack(parsed)
	if err != nil {
		return "failed", &schema.Reason{Code: schema.ReasonTooLarge, Message: err.Error()}, nil
	}
	if err := r.runs.QueueReparse(ctx, in, doc.Document, doc.Version, artifact); err != nil {
		return "", nil, fmt.Errorf("queue what document %s was parsed to: %w", doc.Document, err)
	}
	return "changed", nil, nil
}

// parsedSections cuts blocks into sections as ingestion does.
func parsedSections(parsed schema.Parsed) (sections []schema.Section, reason *schema.Reason) {
	defer recoverFailure(&reason)
	if sections = text.Sections(parsed, text.SectionTokens); len(sections) == 0 {
		return nil, &schema.Reason{Code: schema.ReasonEmpty, Message: "there is no text in it"}
	}
	return sections, nil
}

func textBytes(sections []schema.Section) (n int) {
	for _, s := range sections {
		n += len(s.Text)
	}
	return n
}

// sameText reports whether a document that is parsed to sections under a title would be stored as
// it is now.
func sameText(stored batch.StoredVersion, title string, sections []schema.Section) bool {
	if strings.TrimSpace(text.Clean(title)) != stored.Title || len(sections) != len(stored.Sections) {
		return false
	}
	for i, s := range sections {
		have := stored.Sections[i]
		if s.Text != have.Text || s.Ordinal != have.Ordinal || !slices.Equal(s.Pages, have.Pages) || !bytes.Equal(s.Layout, have.Layout) ||
			!slices.EqualFunc(s.HeadingPath, have.HeadingPath, func(a, b string) bool { return text.Clean(a) == b }) ||
			!slices.Equal(linkTargets(s.Links), linkTargets(have.Links)) {
			return false
		}
	}
	return true
}

// linkTargets returns links as they are stored: as a set.
func linkTargets(links []string) []string {
	var out []string
	for _, l := range links {
		if l = text.Clean(l); l != "" && len(l) <= batch.MaxTarget {
			out = append(out, l)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
