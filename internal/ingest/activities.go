package ingest

// This file holds what all stages share: their dependencies, the leases that they keep while they
// run, and the handling of their errors.

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
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

// Store is what the stages read and write.
type Store interface {
	ExtendLeases(ctx context.Context, tenant uuid.UUID, items []wire.Attempt, l batch.Lease) ([]uuid.UUID, error)
	Sources(ctx context.Context, tenant uuid.UUID, items []wire.Attempt) ([]batch.Source, error)
	Blobs(ctx context.Context, tenant uuid.UUID, hashes [][]byte) (map[string]batch.Blob, error)
	// BeginParses notes that holder begins to parse the versions of items and that it has parsed
	// those of over. It returns how often each version of items killed a parser or the worker that
	// was noted before. A version whose attempt is over is not in deaths.
	BeginParses(ctx context.Context, tenant uuid.UUID, items []wire.Attempt, holder string, over []wire.Attempt) (deaths map[uuid.UUID]int, err error)
	// CountDeath records that a parser died over a version.
	CountDeath(ctx context.Context, tenant uuid.UUID, item wire.Attempt) error
	// EndParses notes that holder no longer parses the versions, and that it is alive.
	EndParses(ctx context.Context, tenant uuid.UUID, items []wire.Attempt, holder string) error
	SaveArtifacts(ctx context.Context, tenant uuid.UUID, stage batch.Stage, artifacts []batch.Artifact) error
	Artifacts(ctx context.Context, tenant uuid.UUID, stage batch.Stage, items []wire.Attempt) (map[uuid.UUID][]byte, error)
	// WriteCut makes ready versions that were cut by recipe. If some were cut for a generation that
	// is not live, it writes nothing and returns a *batch.StaleError.
	WriteCut(ctx context.Context, tenant, collection uuid.UUID, recipe batch.Recipe, docs []batch.Document) ([]wire.Outcome, error)
	// WriteCuts does the same for several collections of a tenant in one transaction.
	WriteCuts(ctx context.Context, tenant uuid.UUID, cuts []batch.Cut) ([]wire.Outcome, error)
	FailVersions(ctx context.Context, tenant uuid.UUID, failures []batch.Failure) error
	// LiveRecipes returns the recipes of the collections' live generations. Collections without a
	// row are left out.
	LiveRecipes(ctx context.Context, tenant uuid.UUID, collections []uuid.UUID) (map[uuid.UUID]batch.Recipe, error)
}

// Curation is notified of collections that changed. Changed does not block.
type Curation interface {
	Changed(tenant, collection uuid.UUID)
}

// Parser turns a file into blocks. name and mediaType are hints; the content decides. language is
// the collection's; OCR of scanned pages uses it. A *FileError is final, except one with
// schema.ReasonCrashed. Any other error is a failure of the environment, not of the file.
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
	// Segment scores neighbouring sentences: a run of n sentences gets n-1 scores, and a score
	// below the returned threshold is a cut.
	Segment(ctx context.Context, lane wire.Lane, runs [][]string) ([][]float32, float64, error)
	// Encode returns a vector per text, and the name of their space.
	Encode(ctx context.Context, lane wire.Lane, texts []string) (wire.Vectors, string, error)
	// Link returns, for each passage of each document, the keep other passages of the document that
	// it is most strongly related to. A document is given by its passages' vectors.
	Link(ctx context.Context, lane wire.Lane, space string, documents []wire.Vectors, keep int) (links [][][]wire.PassageLink, model string, err error)
	// SegmentEncode segments, encodes and links documents as by says. A nil result means that the
	// document has to take the three steps one by one.
	SegmentEncode(ctx context.Context, lane wire.Lane, by schema.Segmentation, documents []wire.SegmentEncodeDocument, keep int) ([]*wire.SegmentEncodeResult, error)
	// Info returns what the models can do.
	Info(ctx context.Context) (wire.ModelInfo, error)
}

// Activities are the stages of IngestVersions. Each is safe to run again, and to
// run twice at once.
type Activities struct {
	store    Store
	parser   Parser
	models   Models
	curation Curation
	options  Options
}

// NewActivities returns the stages.
func NewActivities(s Store, p Parser, m Models, c Curation, o Options) (*Activities, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	return &Activities{store: s, parser: p, models: m, curation: c, options: o}, nil
}

// work is the versions of a batch that belong to one tenant, by collection.
type work struct {
	tenant uuid.UUID
	parts  []wire.IngestBatch
}

// byTenant divides a batch by tenant. The tenants with the fewest versions come first, so that they
// do not wait for the others.
func byTenant(in wire.IngestVersions) []work {
	var out []work
	at := map[uuid.UUID]int{}
	for _, p := range in.Parts {
		i, found := at[p.Tenant]
		if !found {
			i = len(out)
			at[p.Tenant] = i
			out = append(out, work{tenant: p.Tenant})
		}
		out[i].parts = append(out[i].parts, p)
	}
	slices.SortStableFunc(out, func(a, b work) int { return a.versions() - b.versions() })
	return out
}

func (w work) versions() int {
	n := 0
	for _, p := range w.parts {
		n += len(p.Items)
	}
	return n
}

// items returns the versions of all collections.
func (w work) items() []wire.Attempt {
	if len(w.parts) == 1 {
		return w.parts[0].Items
	}
	var out []wire.Attempt
	for _, p := range w.parts {
		out = append(out, p.Items...)
	}
	return out
}

// only returns the versions for which keep returns true.
func (w work) only(keep func(wire.Attempt) bool) work {
	out := work{tenant: w.tenant}
	for _, p := range w.parts {
		stays := p
		stays.Items = nil
		for _, item := range p.Items {
			if keep(item) {
				stays.Items = append(stays.Items, item)
			}
		}
		if len(stays.Items) > 0 {
			out.parts = append(out.parts, stays)
		}
	}
	return out
}

// failure is the error that a stage ended with for some versions of a batch. Other versions may
// have succeeded.
type failure struct {
	work
	err error
}

// body does a stage's work on one tenant's versions, all of which this batch still owns.
type body func(ctx context.Context, w work) ([]wire.Outcome, []failure)

// tenantsAtOnce is how many tenants' versions a stage works on at a time.
const tenantsAtOnce = 4

// run does a stage, tenant by tenant. It takes over the leases, extends them while it works, and
// reports the versions that another attempt owns as lost. A failure of one tenant or collection
// does not affect the others.
func (a *Activities) run(ctx context.Context, stage string, in wire.IngestVersions, do body) ([]wire.Outcome, error) {
	all := byTenant(in)
	of := []attribute.KeyValue{attribute.Int("sluice.versions", in.Versions()), attribute.Int("sluice.collections", len(in.Parts))}
	log := slog.With("stage", stage, "versions", in.Versions(), "collections", len(in.Parts))
	if len(all) == 1 {
		of = append(of, attribute.String("sluice.tenant", all[0].tenant.String()))
		log = log.With("tenant", all[0].tenant)
	}
	ctx, span := tracer.Start(ctx, "ingest "+stage, links(in.Links), trace.WithAttributes(of...))
	defer span.End()
	defer timed(ctx, stage, "all")()

	faults := heartbeat.Faults(ctx)
	working, stop := a.keep(ctx, all, faults)
	var mu sync.Mutex
	var out []wire.Outcome
	var failures []failure
	var group errgroup.Group
	group.SetLimit(tenantsAtOnce)
	for _, w := range all {
		group.Go(func() error {
			some, failed := a.tenant(working, w, do)
			mu.Lock()
			defer mu.Unlock()
			out, failures = append(out, some...), append(failures, failed...)
			return nil
		})
	}
	_ = group.Wait() // failures are in their own list
	stop()
	for _, o := range out {
		if o.Reason != nil {
			log.DebugContext(ctx, "version failed", "version", o.Version, "code", o.Reason.Code, "reason", o.Reason.Message)
		}
	}
	if len(failures) == 0 {
		return out, nil
	}
	return a.judge(ctx, stage, out, failures, faults, log)
}

// judge decides what a stage that failed for some versions returns.
func (a *Activities) judge(ctx context.Context, stage string, out []wire.Outcome, failures []failure, faults int, log *slog.Logger) ([]wire.Outcome, error) {
	var errs []error
	var faulty []failure
	for _, f := range failures {
		if isMissing(f.err) {
			log.WarnContext(ctx, "artifacts of earlier stages are missing; running them again", "error", f.err)
			return nil, temporal.NewNonRetryableApplicationError(f.err.Error(), wire.ErrorArtifactsMissing, nil)
		}
		errs = append(errs, f.err)
		if !transient(f.err) {
			faulty = append(faulty, f)
		}
	}
	err := errors.Join(errs...)
	span := trace.SpanFromContext(ctx)
	span.RecordError(err)
	span.SetStatus(codes.Error, err.Error())
	attempt := int(activity.GetInfo(ctx).Attempt)
	if len(faulty) == 0 {
		log.WarnContext(ctx, "a dependency of the stage is unavailable; trying again", "try", attempt, "error", err)
		return nil, fmt.Errorf("%s: %w", stage, err)
	}
	faults++
	if faults < a.options.Tries || len(faulty) < len(failures) {
		activity.RecordHeartbeat(ctx, faults)
		log.WarnContext(ctx, "stage failed, trying again", "try", attempt, "failures", faults, "error", err)
		return nil, fmt.Errorf("%s: %w", stage, err)
	}
	for _, f := range faulty {
		log.ErrorContext(ctx, "stage failed for good", "try", attempt, "failures", faults, "tenant", f.tenant, "failed", f.versions(), "error", f.err)
		reason := schema.Reason{Code: schema.ReasonRejected, Message: fmt.Sprintf("the stage %s failed %d times: %v", stage, faults, f.err)}
		for _, item := range f.items() {
			out = append(out, wire.Outcome{Version: item.Version, Reason: &reason})
		}
	}
	return out, nil
}

// tenant does a stage for one tenant. If that fails through a fault of this program, it tries each
// collection by itself.
func (a *Activities) tenant(ctx context.Context, w work, do body) (out []wire.Outcome, failures []failure) {
	ctx = wire.ForTenant(ctx, w.tenant)
	current, lost, err := a.take(ctx, w)
	if err != nil {
		return nil, []failure{{w, err}}
	}
	if len(current.parts) == 0 {
		return lost, nil
	}
	out, failures = guarded(ctx, current, do)
	if len(current.parts) > 1 && len(failures) == 1 && failures[0].versions() == current.versions() && !transient(failures[0].err) && !isMissing(failures[0].err) {
		out, failures = nil, nil
		for _, p := range current.parts {
			some, failed := guarded(ctx, work{w.tenant, []wire.IngestBatch{p}}, do)
			out, failures = append(out, some...), append(failures, failed...)
		}
	}
	return append(lost, out...), failures
}

// guarded does a stage, and turns a panic into a failure of its versions.
func guarded(ctx context.Context, w work, do body) (out []wire.Outcome, failures []failure) {
	defer func() {
		if p := recover(); p != nil {
			out, failures = nil, []failure{{w, fmt.Errorf("panic: %v\n%s", p, debug.Stack())}}
		}
	}()
	return do(ctx, w)
}

// take extends the leases of a tenant's versions and reports which versions are lost.
func (a *Activities) take(ctx context.Context, w work) (current work, lost []wire.Outcome, err error) {
	items := w.items()
	ids, err := a.store.ExtendLeases(ctx, w.tenant, items, a.options.lease())
	if err != nil {
		return w, nil, fmt.Errorf("extend leases: %w", err)
	}
	own := make(map[uuid.UUID]bool, len(ids))
	for _, id := range ids {
		own[id] = true
	}
	for _, item := range items {
		if !own[item.Version] {
			lost = append(lost, wire.Outcome{Version: item.Version, Lost: true})
		}
	}
	return w.only(func(item wire.Attempt) bool { return own[item.Version] }), lost, nil
}

// keep sends Temporal heartbeats of the stage and extends the leases until the returned function is
// called.
func (a *Activities) keep(ctx context.Context, all []work, faults int) (context.Context, func()) {
	every := a.options.Lease / 4
	// The heartbeats do not use the context below: cancelling a heartbeat under way would look like
	// a fault.
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
			if a.extend(ctx, all) {
				extended = time.Now()
			}
		}
	})
	return ctx, func() {
		cancel()
		extending.Wait()
		quiet()
	}
}

// extend extends the leases of all, and reports whether it succeeded.
func (a *Activities) extend(ctx context.Context, all []work) bool {
	for _, w := range all {
		if _, err := a.store.ExtendLeases(ctx, w.tenant, w.items(), a.options.lease()); err != nil {
			if ctx.Err() == nil {
				slog.WarnContext(ctx, "cannot extend leases", "tenant", w.tenant, "error", err)
			}
			return false
		}
	}
	return true
}

// missingError says that an artifact of the previous stage is gone.
type missingError struct {
	stage   batch.Stage
	version uuid.UUID
}

func (e *missingError) Error() string {
	return fmt.Sprintf("version %s has no %s artifact", e.version, e.stage)
}

// isMissing reports whether the stages must run again because an artifact of one of them is gone.
func isMissing(err error) bool {
	var m *missingError
	return errors.As(err, &m)
}

// failed returns the outcome of a version that fails.
func failed(version uuid.UUID, code, format string, args ...any) wire.Outcome {
	return wire.Outcome{Version: version, Reason: &schema.Reason{Code: code, Message: fmt.Sprintf(format, args...)}}
}

// maxReason is the maximum length of a stored reason, in bytes.
const maxReason = 1000

// clip cleans a message that people read and shortens it to maxReason.
func clip(message string) string {
	message = text.Clean(message)
	if len(message) <= maxReason {
		return message
	}
	return strings.ToValidUTF8(message[:maxReason], "") + "…"
}
