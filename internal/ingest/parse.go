package ingest

// The first stage: bytes to blocks.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

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
	var mu sync.Mutex
	var outcomes []wire.Outcome
	var artifacts []batch.Artifact
	var bytes int64
	done := timed(ctx, "parse", "parser")
	group, working := errgroup.WithContext(ctx)
	group.SetLimit(a.options.Parallel)
	for _, src := range sources {
		if src.Parsed {
			continue
		}
		data, found := blobs[string(src.SHA256)]
		if !found {
			outcomes = append(outcomes, failed(src.Version, schema.ReasonBroken, "its bytes are no longer stored: upload it again"))
			continue
		}
		group.Go(func() error {
			artifact, out, err := a.parseOne(working, in, src, data)
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			if out != nil {
				outcomes = append(outcomes, *out)
				return nil
			}
			artifacts = append(artifacts, batch.Artifact{Attempt: src.Attempt, Data: artifact})
			bytes += int64(len(data))
			return nil
		})
	}
	err = group.Wait()
	done()
	// What is parsed already is kept even when the stage has to run again.
	defer timed(ctx, "parse", "store")()
	if saveErr := a.store.SaveArtifacts(context.WithoutCancel(ctx), in.Tenant, batch.StageParsed, artifacts); saveErr != nil {
		err = errors.Join(err, fmt.Errorf("save blocks: %w", saveErr))
	}
	if err != nil {
		return nil, err
	}
	meters.bytes.Add(ctx, bytes)
	return outcomes, nil
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

// parseOne parses one file. Each parse is counted before it begins: a file that
// takes down the parser, or this whole process, fails alone in the end.
func (a *Activities) parseOne(ctx context.Context, in wire.IngestBatch, src batch.Source, data []byte) ([]byte, *wire.Outcome, error) {
	for {
		begun, err := a.store.CountParse(ctx, in.Tenant, src.Attempt)
		if errors.Is(err, schema.ErrLostLease) {
			return nil, &wire.Outcome{Version: src.Version, Lost: true}, nil
		}
		if err != nil {
			return nil, nil, fmt.Errorf("count a parse of version %s: %w", src.Version, err)
		}
		if begun > maxCrashes {
			out := failed(src.Version, schema.ReasonCrashed,
				"the parser died %d times on it: it is damaged, or it needs more memory than the parser may take", maxCrashes)
			return nil, &out, nil
		}
		parsed, err := a.parser.Parse(ctx, src.Name, src.MediaType, data)
		var failure *FileError
		switch {
		case err == nil:
		case errors.As(err, &failure):
			reason := failure.Reason
			if reason.Code == schema.ReasonCrashed {
				slog.WarnContext(ctx, "the parser died", "tenant", in.Tenant, "version", src.Version, "document", src.Name,
					"time", begun, "reason", reason.Message)
				continue
			}
			return nil, &wire.Outcome{Version: src.Version, Reason: &reason}, nil
		default:
			return nil, nil, fmt.Errorf("parse version %s: %w", src.Version, err)
		}
		if len(parsed.Blocks) == 0 {
			out := failed(src.Version, schema.ReasonEmpty, "there is no text in it")
			return nil, &out, nil
		}
		// The title that people see is the one that is embedded with the text.
		parsed.Title = cmp.Or(src.Title, parsed.Title)
		artifact, err := batch.Pack(parsed)
		return artifact, nil, err
	}
}
