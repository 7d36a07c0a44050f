package ingest

// The first stage: bytes to blocks.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/sluice-rag/sluice/internal/ingest/batch"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// maxCrashes is how often a document may crash its parser before it fails.
const maxCrashes = 3

// notedVersions and notedBytes bound the versions whose parse is noted in one transaction; a larger
// version is noted by itself. If the worker dies, only these are parsed alone afterwards.
const (
	notedVersions = 64
	notedBytes    = 1 << 20
)

// Parse parses the versions of a batch and stores their blocks.
func (a *Activities) Parse(ctx context.Context, in wire.IngestVersions) ([]wire.Outcome, error) {
	return a.run(ctx, "parse", in, a.parse)
}

func (a *Activities) parse(ctx context.Context, w work) ([]wire.Outcome, []failure) {
	sources, blobs, err := a.sources(ctx, w)
	if err != nil {
		return nil, []failure{{w, err}}
	}
	p := parsing{Activities: a, tenant: w.tenant, blobs: blobs}
	done := timed(ctx, "parse", "parser")
	err = p.all(ctx, sources)
	done()
	// The results so far are saved even if the stage has to run again, and the save waits for the
	// store: what is not saved is parsed again.
	defer timed(ctx, "parse", "store")()
	saving := context.WithoutCancel(ctx)
	if saveErr := retry(ctx, "save blocks", func() error {
		return a.store.SaveArtifacts(saving, w.tenant, batch.StageParsed, p.artifacts)
	}); saveErr != nil {
		err = errors.Join(err, saveErr)
	}
	if err != nil || len(p.outcomes) > 0 {
		a.endParses(saving, w)
	}
	if err != nil {
		return nil, []failure{{w, err}}
	}
	meters.bytes.Add(ctx, p.bytes)
	return p.outcomes, nil
}

// parsing is the state of parsing a tenant's versions.
type parsing struct {
	*Activities
	tenant uuid.UUID
	blobs  map[string]batch.Blob

	mu        sync.Mutex
	outcomes  []wire.Outcome
	artifacts []batch.Artifact
	bytes     int64
	over      []wire.Attempt // parsed, but not yet reported to the store
	suspects  []batch.Source

	noting  sync.Mutex     // guards waiting and noted
	waiting []batch.Source // not noted yet
	noted   []batch.Source // to be parsed next
}

// all parses several files at a time. Files over which a parser or a worker died before are parsed
// after that, one by one, because a crash would kill the parses that run beside them.
func (p *parsing) all(ctx context.Context, sources []batch.Source) error {
	for _, src := range sources {
		if src.Parsed {
			continue
		}
		blob, kept := p.blobs[string(src.SHA256)]
		if problem := unreadable(blob, kept); problem != "" {
			p.addOutcome(failed(src.Version, schema.ReasonBroken, "%s", problem))
			continue
		}
		p.waiting = append(p.waiting, src)
	}
	group, working := errgroup.WithContext(ctx)
	for range min(p.options.Parallel, len(p.waiting)) {
		group.Go(func() error {
			for {
				src, found, err := p.next(working)
				if err != nil || !found {
					return err
				}
				if err := p.one(working, src, false, 0); err != nil {
					return err
				}
			}
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for _, src := range p.suspects {
		deaths, found, err := p.begin(ctx, src)
		if err == nil && found {
			err = p.one(ctx, src, true, deaths)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// next returns a version whose parse is noted. Several are noted in one transaction: one for each
// would cost more than parsing.
func (p *parsing) next(ctx context.Context) (src batch.Source, found bool, err error) {
	p.noting.Lock()
	defer p.noting.Unlock()
	for len(p.noted) == 0 && len(p.waiting) > 0 {
		if err := ctx.Err(); err != nil {
			return src, false, err
		}
		n, bytes := 0, 0
		for n < len(p.waiting) && n < notedVersions && (n == 0 || bytes+len(p.blobs[string(p.waiting[n].SHA256)].Data) <= notedBytes) {
			bytes += len(p.blobs[string(p.waiting[n].SHA256)].Data)
			n++
		}
		some := p.waiting[:n]
		deaths, err := p.note(ctx, some)
		if err != nil {
			return src, false, err
		}
		p.waiting = p.waiting[n:]
		for _, src := range some {
			switch count, found := deaths[src.Version]; {
			case !found:
				p.addOutcome(wire.Outcome{Version: src.Version, Lost: true})
			case count > 0:
				p.postpone(src)
			default:
				p.noted = append(p.noted, src)
			}
		}
	}
	if len(p.noted) == 0 {
		return src, false, nil
	}
	src, p.noted = p.noted[0], p.noted[1:]
	return src, true, nil
}

// postpone puts a version off until the others are parsed.
func (p *parsing) postpone(src batch.Source) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.suspects, p.over = append(p.suspects, src), append(p.over, src.Attempt)
}

// unreadable says why a file's bytes cannot be read. It returns "" if they can.
func unreadable(b batch.Blob, kept bool) string {
	if !kept {
		return "its bytes are no longer stored: upload it again"
	}
	return b.Problem
}

func (p *parsing) addOutcome(out wire.Outcome) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.outcomes = append(p.outcomes, out)
}

// sources reads the versions to parse, and their bytes.
func (a *Activities) sources(ctx context.Context, w work) ([]batch.Source, map[string]batch.Blob, error) {
	defer timed(ctx, "parse", "store")()
	sources, err := a.store.Sources(ctx, w.tenant, w.items())
	if err != nil {
		return nil, nil, fmt.Errorf("read sources: %w", err)
	}
	var hashes [][]byte
	for _, s := range sources {
		if !s.Parsed {
			hashes = append(hashes, s.SHA256)
		}
	}
	if len(hashes) == 0 {
		return sources, nil, nil
	}
	blobs, err := a.store.Blobs(ctx, w.tenant, hashes)
	if err != nil {
		return nil, nil, fmt.Errorf("read bytes: %w", err)
	}
	return sources, blobs, nil
}

// endLimit bounds the time for a note that a worker is alive when it ends or gives up.
const endLimit = 5 * time.Second

// endParses notes that this worker is alive though it parses no more of a batch. If the note fails,
// and the worker dies before it begins another parse of the version, the death counts against the
// version.
func (a *Activities) endParses(ctx context.Context, w work) {
	ctx, cancel := context.WithTimeout(ctx, endLimit)
	defer cancel()
	if err := a.store.EndParses(ctx, w.tenant, w.items(), a.options.Holder); err != nil {
		slog.WarnContext(ctx, "cannot record the end of parses", "tenant", w.tenant, "error", err)
	}
}

// retry calls try until it succeeds, ctx ends, or it fails with an error that is not transient.
func retry(ctx context.Context, what string, try func() error) error {
	pause := backoff{first: minBackoff, max: maxRetryPause}
	for {
		err := try()
		if err == nil {
			return nil
		}
		err = fmt.Errorf("%s: %w", what, err)
		if ctx.Err() != nil || !transient(err) {
			return err
		}
		slog.WarnContext(ctx, "trying again", "pause", pause.next(), "error", err)
		pause.sleep(ctx)
	}
}

// maxRetryPause is the longest pause between two tries.
const maxRetryPause = 5 * time.Second

// one parses one file, whose parse is noted. A file that keeps crashing the parser or this whole
// process fails alone in the end. Only crashes count: it is not the file's fault if, say, the store
// does not answer afterwards.
func (p *parsing) one(ctx context.Context, src batch.Source, alone bool, deaths int) error {
	data := p.blobs[string(src.SHA256)].Data
	for {
		switch {
		case deaths >= maxCrashes:
			p.addOutcome(failed(src.Version, schema.ReasonCrashed,
				"the parser crashed %d times on it: it is damaged, or it needs more memory than the parser may take", deaths))
			return nil
		case deaths > 0 && !alone:
			p.postpone(src)
			return nil
		}
		parsed, err := p.parser.Parse(ctx, src.Name, src.MediaType, src.Language, data)
		var failure *FileError
		switch {
		case err == nil:
			return p.keep(src, parsed, len(data))
		case !errors.As(err, &failure):
			return fmt.Errorf("parse version %s: %w", src.Version, err)
		case failure.Reason.Code != schema.ReasonCrashed:
			p.addOutcome(wire.Outcome{Version: src.Version, Reason: &failure.Reason})
			return nil
		}
		slog.WarnContext(ctx, "the parser crashed", "tenant", p.tenant, "version", src.Version, "document", src.Name,
			"deaths", deaths+1, "reason", failure.Reason.Message)
		if err := retry(ctx, fmt.Sprintf("count a death of the parser over version %s", src.Version), func() error {
			return p.store.CountDeath(ctx, p.tenant, src.Attempt)
		}); err != nil {
			return err
		}
		alone = true // only the child process that parsed this file died
		var found bool
		if deaths, found, err = p.begin(ctx, src); err != nil || !found {
			return err
		}
	}
}

// begin notes that the parse of a version begins. A version that is not found is lost.
func (p *parsing) begin(ctx context.Context, src batch.Source) (deaths int, found bool, err error) {
	all, err := p.note(ctx, []batch.Source{src})
	if err != nil {
		return 0, false, err
	}
	deaths, found = all[src.Version]
	if !found {
		p.addOutcome(wire.Outcome{Version: src.Version, Lost: true})
	}
	return deaths, found, nil
}

// note notes that parses begin, and that others have ended. deaths is as in Store.BeginParses.
func (p *parsing) note(ctx context.Context, sources []batch.Source) (deaths map[uuid.UUID]int, err error) {
	items := make([]wire.Attempt, len(sources))
	for i, src := range sources {
		items[i] = src.Attempt
	}
	p.mu.Lock()
	over := p.over
	p.over = nil
	p.mu.Unlock()
	deaths, err = p.store.BeginParses(ctx, p.tenant, items, p.options.Holder, over)
	if err != nil {
		p.mu.Lock()
		p.over = append(p.over, over...)
		p.mu.Unlock()
		return nil, fmt.Errorf("begin to parse %d versions: %w", len(items), err)
	}
	return deaths, nil
}

// keep adds a parsed file to the artifacts.
func (p *parsing) keep(src batch.Source, parsed schema.Parsed, size int) error {
	if len(parsed.Blocks) == 0 {
		p.addOutcome(failed(src.Version, schema.ReasonEmpty, "there is no text in it"))
		return nil
	}
	// The title that people see is also the one that is embedded with the text.
	parsed.Title = cmp.Or(src.Title, parsed.Title)
	artifact, err := batch.Pack(parsed)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.artifacts = append(p.artifacts, batch.Artifact{Attempt: src.Attempt, Data: artifact})
	p.over = append(p.over, src.Attempt)
	p.bytes += int64(size)
	return nil
}
