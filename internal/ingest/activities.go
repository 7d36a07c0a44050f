package ingest

// This file holds what all stages share: their dependencies, the leases they
// keep while they run, and what becomes of their errors.

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/sluice-rag/sluice/internal/durable/heartbeat"
	"github.com/sluice-rag/sluice/internal/ingest/batch"
	"github.com/sluice-rag/sluice/internal/text"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// Store is what the stages read and write.
type Store interface {
	ExtendLeases(ctx context.Context, tenant uuid.UUID, items []wire.Attempt, l batch.Lease) ([]uuid.UUID, error)
	Sources(ctx context.Context, tenant uuid.UUID, items []wire.Attempt) ([]batch.Source, error)
	Blobs(ctx context.Context, tenant uuid.UUID, hashes [][]byte) (map[string][]byte, error)
	// BeginParse notes that holder begins to parse a version and has done so with
	// those that are over, and returns how often the first killed a parser, or the
	// worker that had noted so before.
	BeginParse(ctx context.Context, tenant uuid.UUID, item wire.Attempt, holder string, over []wire.Attempt) (deaths int, err error)
	// CountDeath counts a parser that died over a version.
	CountDeath(ctx context.Context, tenant uuid.UUID, item wire.Attempt) error
	// EndParses notes that holder parses versions no more, and lives.
	EndParses(ctx context.Context, tenant uuid.UUID, items []wire.Attempt, holder string) error
	SaveArtifacts(ctx context.Context, tenant uuid.UUID, stage batch.Stage, artifacts []batch.Artifact) error
	Artifacts(ctx context.Context, tenant uuid.UUID, stage batch.Stage, items []wire.Attempt) (map[uuid.UUID][]byte, error)
	// WriteVersions makes versions ready; a *batch.StaleError says that nothing
	// was written, because some were cut for a generation that is not live.
	WriteVersions(ctx context.Context, tenant, collection uuid.UUID, docs []batch.Document) ([]wire.Outcome, error)
	FailVersions(ctx context.Context, tenant uuid.UUID, failures []batch.Failure) error
	// LiveRecipe is what the collection's live generation is cut by.
	LiveRecipe(ctx context.Context, tenant, collection uuid.UUID) (batch.Recipe, error)
}

// Curation hears of collections that changed. It does not wait for anything.
type Curation interface {
	Changed(tenant, collection uuid.UUID)
}

// Parser turns a file into blocks. name and mediaType are hints; the content
// decides. language is the collection's, by which scanned pages are read. A *FileError is final, but for schema.ReasonCrashed; any other error
// is of the surroundings.
type Parser interface {
	Parse(ctx context.Context, name, mediaType, language string, data []byte) (schema.Parsed, error)
}

// FileError is a file that can't be parsed, and why.
type FileError struct {
	Reason schema.Reason
	Err    error // what the parser said
}

func (e *FileError) Error() string { return e.Err.Error() }

// Unwrap returns what the parser said.
func (e *FileError) Unwrap() error { return e.Err }

// Models is the model server.
type Models interface {
	// Segment scores neighbouring sentences: a run of n gives n-1 scores, and
	// below the threshold is a cut.
	Segment(ctx context.Context, lane wire.Lane, runs [][]string) ([][]float32, float64, error)
	// Encode gives a vector per text, and the space they are of.
	Encode(ctx context.Context, lane wire.Lane, texts []string) (wire.Vectors, string, error)
	// Link gives, for each passage of each document, the strongest keep others
	// of the document that it is related to. A document is its passages' vectors.
	Link(ctx context.Context, lane wire.Lane, space string, documents []wire.Vectors, keep int) (links [][][]wire.PassageLink, model string, err error)
	// Info says what the models can do.
	Info(ctx context.Context) (wire.ModelInfo, error)
}

// Activities are the stages of IngestBatch. Each is safe to run again, and to
// run twice at once.
type Activities struct {
	store    Store
	parser   Parser
	models   Models
	curation Curation
	options  Options
}

// NewActivities makes the stages.
func NewActivities(s Store, p Parser, m Models, c Curation, o Options) (*Activities, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	return &Activities{store: s, parser: p, models: m, curation: c, options: o}, nil
}

// body is a stage's work on the versions that are still this batch's.
type body func(ctx context.Context, in wire.IngestBatch) ([]wire.Outcome, error)

// run does a stage: it takes over the leases, keeps them while body runs, and
// reports the versions that another attempt owns as lost.
func (a *Activities) run(ctx context.Context, stage string, in wire.IngestBatch, do body) (out []wire.Outcome, err error) {
	ctx, span := tracer.Start(ctx, "ingest "+stage, links(in.Links), trace.WithAttributes(
		attribute.String("sluice.tenant", in.Tenant.String()),
		attribute.String("sluice.collection", in.Collection.String()),
		attribute.Int("sluice.versions", len(in.Items))))
	defer span.End()
	defer timed(ctx, stage, "all")()
	ctx = wire.ForTenant(ctx, in.Tenant)
	log := slog.With("stage", stage, "tenant", in.Tenant, "collection", in.Collection, "versions", len(in.Items))

	faults := heartbeat.Faults(ctx)
	out, err = a.stage(ctx, in, faults, do)
	switch {
	case err == nil:
		for _, o := range out {
			if o.Reason != nil {
				log.DebugContext(ctx, "version fails", "version", o.Version, "code", o.Reason.Code, "reason", o.Reason.Message)
			}
		}
		return out, nil
	case isMissing(err):
		log.WarnContext(ctx, "what the stages before left is of no use; they run again", "error", err)
		return nil, temporal.NewNonRetryableApplicationError(err.Error(), wire.ErrorArtifactsMissing, nil)
	}
	span.RecordError(err)
	span.SetStatus(codes.Error, err.Error())
	attempt := int(activity.GetInfo(ctx).Attempt)
	if transient(err) {
		log.WarnContext(ctx, "stage waits for its surroundings, trying again", "try", attempt, "error", err)
		return nil, fmt.Errorf("%s: %w", stage, err)
	}
	faults++
	if faults < a.options.Tries {
		activity.RecordHeartbeat(ctx, faults)
		log.WarnContext(ctx, "stage failed, trying again", "try", attempt, "failures", faults, "error", err)
		return nil, fmt.Errorf("%s: %w", stage, err)
	}
	log.ErrorContext(ctx, "stage failed for good", "try", attempt, "failures", faults, "error", err)
	reason := schema.Reason{Code: schema.ReasonRejected, Message: fmt.Sprintf("the stage %s failed %d times: %v", stage, faults, err)}
	out = nil
	for _, item := range in.Items {
		out = append(out, wire.Outcome{Version: item.Version, Reason: &reason})
	}
	return out, nil
}

func (a *Activities) stage(ctx context.Context, in wire.IngestBatch, faults int, do body) ([]wire.Outcome, error) {
	current, lost, err := a.take(ctx, in)
	if err != nil || len(current.Items) == 0 {
		return lost, err
	}
	ctx, stop := a.keep(ctx, current, faults)
	defer stop()
	out, err := do(ctx, current)
	return append(lost, out...), err
}

// take extends the leases of the batch and tells which versions are lost.
func (a *Activities) take(ctx context.Context, in wire.IngestBatch) (current wire.IngestBatch, lost []wire.Outcome, err error) {
	ids, err := a.store.ExtendLeases(ctx, in.Tenant, in.Items, a.options.lease())
	if err != nil {
		return in, nil, fmt.Errorf("extend leases: %w", err)
	}
	mine := make(map[uuid.UUID]bool, len(ids))
	for _, id := range ids {
		mine[id] = true
	}
	current = in
	current.Items = nil
	for _, item := range in.Items {
		if mine[item.Version] {
			current.Items = append(current.Items, item)
		} else {
			lost = append(lost, wire.Outcome{Version: item.Version, Lost: true})
		}
	}
	return current, lost, nil
}

// keep shows Temporal that the stage lives and extends the leases until stop.
func (a *Activities) keep(ctx context.Context, in wire.IngestBatch, faults int) (context.Context, func()) {
	every := a.options.Lease / 4
	// Not with the context below: a heartbeat under way may end, for cutting it would look like a fault.
	quiet := heartbeat.Start(ctx, min(heartbeat.Every, every), faults)
	ctx, cancel := context.WithCancel(ctx)
	var extending sync.WaitGroup
	extending.Go(func() {
		tick := time.NewTicker(min(heartbeat.Every, every))
		defer tick.Stop()
		extended := time.Now()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if time.Since(extended) < every {
				continue
			}
			if _, err := a.store.ExtendLeases(ctx, in.Tenant, in.Items, a.options.lease()); err != nil {
				if ctx.Err() == nil {
					slog.WarnContext(ctx, "cannot extend leases", "tenant", in.Tenant, "error", err)
				}
				continue
			}
			extended = time.Now()
		}
	})
	return ctx, func() {
		cancel()
		extending.Wait()
		quiet()
	}
}

// missingError says that an artifact of the stage before is gone.
type missingError struct {
	stage   batch.Stage
	version uuid.UUID
}

func (e *missingError) Error() string {
	return fmt.Sprintf("version %s has no %s artifact", e.version, e.stage)
}

// isMissing reports whether the stages must run again: what one of them left is
// gone, or is of a generation that is over.
func isMissing(err error) bool {
	var m *missingError
	var stale *batch.StaleError
	return errors.As(err, &m) || errors.As(err, &stale)
}

// artifacts reads what stage left for every version of the batch.
func (a *Activities) artifacts(ctx context.Context, stage batch.Stage, in wire.IngestBatch) (map[uuid.UUID][]byte, error) {
	found, err := a.store.Artifacts(ctx, in.Tenant, stage, in.Items)
	if err != nil {
		return nil, fmt.Errorf("read %s artifacts: %w", stage, err)
	}
	for _, item := range in.Items {
		if found[item.Version] == nil {
			return nil, &missingError{stage, item.Version}
		}
	}
	return found, nil
}

// without returns the items of a batch that have no outcome.
func without(items []wire.Attempt, outcomes []wire.Outcome) []wire.Attempt {
	if len(outcomes) == 0 {
		return items
	}
	gone := make(map[uuid.UUID]bool, len(outcomes))
	for _, o := range outcomes {
		gone[o.Version] = true
	}
	var out []wire.Attempt
	for _, item := range items {
		if !gone[item.Version] {
			out = append(out, item)
		}
	}
	return out
}

// failed is the outcome of a version that fails.
func failed(version uuid.UUID, code, format string, args ...any) wire.Outcome {
	return wire.Outcome{Version: version, Reason: &schema.Reason{Code: code, Message: fmt.Sprintf(format, args...)}}
}

// maxReason is the most bytes of a reason that are kept.
const maxReason = 1000

// clip cleans and shortens what people will read.
func clip(message string) string {
	message = text.Clean(message)
	if len(message) <= maxReason {
		return message
	}
	return strings.ToValidUTF8(message[:maxReason], "") + "…"
}
