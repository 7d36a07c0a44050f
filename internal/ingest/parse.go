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

	"golang.org/x/sync/errgroup"

	"github.com/sluice-rag/sluice/internal/ingest/batch"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// maxCrashes is how often a document may take its parser down before it fails.
const maxCrashes = 3

// Parse parses the versions of a batch and leaves their blocks.
func (a *Activities) Parse(ctx context.Context, in wire.IngestBatch) ([]wire.Outcome, error) {
	return a.run(ctx, "parse", in, a.parse)
}

func (a *Activities) parse(ctx context.Context, in wire.IngestBatch) ([]wire.Outcome, error) {
	sources, blobs, err := a.sources(ctx, in)
	if err != nil {
		return nil, err
	}
	p := parsing{Activities: a, in: in, blobs: blobs}
	done := timed(ctx, "parse", "parser")
	err = p.all(ctx, sources)
	done()
	// What is parsed already is kept even when the stage has to run again, and
	// waits for the store: what is not kept is parsed once more.
	defer timed(ctx, "parse", "store")()
	saving := context.WithoutCancel(ctx)
	if saveErr := retry(ctx, "save blocks", func() error {
		return a.store.SaveArtifacts(saving, in.Tenant, batch.StageParsed, p.artifacts)
	}); saveErr != nil {
		err = errors.Join(err, saveErr)
	}
	if err != nil || len(p.outcomes) > 0 {
		a.endParses(saving, in)
	}
	if err != nil {
		return nil, err
	}
	meters.bytes.Add(ctx, p.bytes)
	return p.outcomes, nil
}

// parsing is the parsing of a batch.
type parsing struct {
	*Activities
	in    wire.IngestBatch
	blobs map[string][]byte

	mu        sync.Mutex
	outcomes  []wire.Outcome
	artifacts []batch.Artifact
	bytes     int64
	over      []wire.Attempt // parsed, and the store has not heard of it yet
	suspects  []batch.Source
}

// all parses several files at a time, and then, one by one, those over which a
// parser or a worker died before: it would take the others with it.
func (p *parsing) all(ctx context.Context, sources []batch.Source) error {
	group, working := errgroup.WithContext(ctx)
	group.SetLimit(p.options.Parallel)
	for _, src := range sources {
		if src.Parsed {
			continue
		}
		if _, found := p.blobs[string(src.SHA256)]; !found {
			p.leave(failed(src.Version, schema.ReasonBroken, "its bytes are no longer stored: upload it again"))
			continue
		}
		group.Go(func() error { return p.one(working, src, false) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for _, src := range p.suspects {
		if err := p.one(ctx, src, true); err != nil {
			return err
		}
	}
	return nil
}

func (p *parsing) leave(out wire.Outcome) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.outcomes = append(p.outcomes, out)
}

// sources reads what is to be parsed, and the bytes of all of it.
func (a *Activities) sources(ctx context.Context, in wire.IngestBatch) ([]batch.Source, map[string][]byte, error) {
	defer timed(ctx, "parse", "store")()
	sources, err := a.store.Sources(ctx, in.Tenant, in.Items)
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
	blobs, err := a.store.Blobs(ctx, in.Tenant, hashes)
	if err != nil {
		return nil, nil, fmt.Errorf("read bytes: %w", err)
	}
	return sources, blobs, nil
}

// endLimit bounds the note that a worker lives which ends or gives up.
const endLimit = 5 * time.Second

// endParses notes that this worker lives though it parses no more of a batch.
// When that can't be noted, and the worker dies before it has begun another
// parse of the version, that counts as the version's doing.
func (a *Activities) endParses(ctx context.Context, in wire.IngestBatch) {
	ctx, cancel := context.WithTimeout(ctx, endLimit)
	defer cancel()
	if err := a.store.EndParses(ctx, in.Tenant, in.Items, a.options.Holder); err != nil {
		slog.WarnContext(ctx, "cannot note the end of parses", "tenant", in.Tenant, "error", err)
	}
}

// retry tries until it works, ctx ends, or it fails for another reason than the
// surroundings.
func retry(ctx context.Context, what string, try func() error) error {
	pause := backoff{first: backoffFirst, most: longestRetryPause}
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

// longestRetryPause is the longest pause between two tries.
const longestRetryPause = 5 * time.Second

// one parses one file. That it begins is noted before: a file that takes down
// the parser, or this whole process, fails alone in the end. Only deaths count:
// that the store, say, did not answer afterwards is no fault of the file.
func (p *parsing) one(ctx context.Context, src batch.Source, alone bool) error {
	data := p.blobs[string(src.SHA256)]
	for {
		deaths, err := p.begin(ctx, src)
		switch {
		case errors.Is(err, schema.ErrLostLease):
			p.leave(wire.Outcome{Version: src.Version, Lost: true})
			return nil
		case err != nil:
			return fmt.Errorf("begin to parse version %s: %w", src.Version, err)
		case deaths >= maxCrashes:
			p.leave(failed(src.Version, schema.ReasonCrashed,
				"the parser died %d times on it: it is damaged, or it needs more memory than the parser may take", deaths))
			return nil
		case deaths > 0 && !alone:
			p.mu.Lock()
			defer p.mu.Unlock()
			p.suspects, p.over = append(p.suspects, src), append(p.over, src.Attempt)
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
			p.leave(wire.Outcome{Version: src.Version, Reason: &failure.Reason})
			return nil
		}
		slog.WarnContext(ctx, "the parser died", "tenant", p.in.Tenant, "version", src.Version, "document", src.Name,
			"deaths", deaths+1, "reason", failure.Reason.Message)
		if err := retry(ctx, fmt.Sprintf("count a death of the parser over version %s", src.Version), func() error {
			return p.store.CountDeath(ctx, p.in.Tenant, src.Attempt)
		}); err != nil {
			return err
		}
		alone = true // its child alone died
	}
}

// begin notes that a parse begins, and that others have ended.
func (p *parsing) begin(ctx context.Context, src batch.Source) (deaths int, err error) {
	p.mu.Lock()
	over := p.over
	p.over = nil
	p.mu.Unlock()
	deaths, err = p.store.BeginParse(ctx, p.in.Tenant, src.Attempt, p.options.Holder, over)
	if err != nil {
		p.mu.Lock()
		p.over = append(p.over, over...)
		p.mu.Unlock()
	}
	return deaths, err
}

// keep keeps what a file was parsed to.
func (p *parsing) keep(src batch.Source, parsed schema.Parsed, size int) error {
	if len(parsed.Blocks) == 0 {
		p.leave(failed(src.Version, schema.ReasonEmpty, "there is no text in it"))
		return nil
	}
	// The title that people see is the one that is embedded with the text.
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
