package main

// This file has the stages of the part workers: the requests of each, and its callers.

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/sluice-rag/sluice/internal/apiclient"
	"github.com/sluice-rag/sluice/internal/bus"
	"github.com/sluice-rag/sluice/internal/modelclient"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
	"github.com/sluice-rag/sluice/schema/wire"
)

const (
	searchedCollections = 32
	searchSlots         = 4 // of a query-worker
	searchCallers       = 64
	searchPlan          = "naive" // the model encodes the question, and its vector is compared

	llmSlots   = 4 // of an llm-gateway
	llmCallers = 128

	ingestSlots       = 2   // batches per ingest-worker
	ingestBatch       = 1   // documents per batch; eight times as many under load
	ingestDocuments   = 600 // per round and 4 s of window
	ingestCollections = 8

	modelSlots   = 1 // per simulated model server
	modelCallers = 96
	modelTime    = 100 * time.Millisecond
)

func (c *workersCommand) rows(ctx context.Context, b *workersInstallation) ([]stageRow, error) {
	random := rand.New(rand.NewPCG(c.Seed, 0))
	w := &writer{random: random, topic: topics()[0]}
	w.turn()
	collections, err := b.collections(ctx, "searched", searchedCollections)
	if err != nil {
		return nil, err
	}
	gateway, err := b.gatewayRow(ctx, c)
	if err != nil {
		return nil, err
	}
	filled := false
	fill := func(ctx context.Context) error { // adds the documents for searches, with a worker that does not wait
		b.service.Store(int64(c.Search))
		if filled {
			return nil
		}
		filled = true
		b.service.Store(0)
		defer b.service.Store(int64(c.Search))
		if err := b.scale(ctx, "ingest-worker", 1); err != nil {
			return err
		}
		if err := b.upload(ctx, w, collections, 2*searchedCollections); err != nil {
			return err
		}
		for {
			left, err := single[int](ctx, b.workbench, `SELECT count(*)::int FROM versions WHERE state <> 'ready' OR NOT curated`)
			if err == nil && left > 0 {
				err = pauseFor(ctx, pollInterval)
			}
			if err != nil {
				return fmt.Errorf("wait for the documents: %w", err)
			}
			if left == 0 {
				return b.scale(ctx, "ingest-worker", 0)
			}
		}
	}
	search := func(name, what string, collections []string) stageRow {
		return stageRow{name: name, what: what, unit: "searches/s", prepare: fill,
			scale: func(ctx context.Context, count int) error {
				return b.scale(ctx, "query-worker", count, fmt.Sprintf("SLUICE_QUERY_CONCURRENCY=%d", searchSlots),
					fmt.Sprintf("SLUICE_QUERY_TENANT_CONCURRENCY=%d", searchSlots), "SLUICE_SLOW_SEARCH=0s")
			},
			work: func(ctx context.Context) (workResult, error) {
				return b.runCallers(ctx, searchCallers, c.Window, isRetryable, func(ctx context.Context, caller, n int) error {
					_, err := b.api.Search(ctx, api.Query{Collection: collections[caller%len(collections)], Query: fmt.Sprintf("%s %d %d", w.topic.name, n, caller), Plan: searchPlan})
					return err
				})
			}}
	}
	return []stageRow{
		search("searches", "query-workers, many collections", collections),
		search("one-collection", "query-workers, one collection", collections[:1]),
		gateway,
		b.ingestRow(c, w),
		b.modelsRow(c),
	}, nil
}

// isRetryable reports whether an error of the API means that the caller should try again.
func isRetryable(err error) bool {
	return apiclient.IsStatus(err, http.StatusTooManyRequests) || apiclient.IsStatus(err, http.StatusServiceUnavailable)
}

// collections creates count collections.
func (b *workersInstallation) collections(ctx context.Context, name string, count int) (out []string, err error) {
	for i := range count {
		unique := fmt.Sprintf("%s-%d", name, i)
		if _, err := b.api.CreateCollection(ctx, api.NewCollection{Name: unique}); err != nil {
			return nil, fmt.Errorf("make a collection: %w", err)
		}
		out = append(out, unique)
	}
	return out, nil
}

// upload uploads documents of one paragraph each, divided among collections.
func (b *workersInstallation) upload(ctx context.Context, w *writer, collections []string, count int) error {
	for i, collection := range collections {
		var docs []api.NewDocument
		for n := i; n < count; n += len(collections) {
			w.turn()
			docs = append(docs, api.NewDocument{ExternalID: fmt.Sprintf("document-%d", n), MediaType: "text/markdown",
				Content: fmt.Appendf(nil, "# %s\n\n%s\n", w.heading(), w.paragraph())})
		}
		for len(docs) > 0 {
			some := docs[:min(len(docs), 100)]
			if _, err := b.api.Upload(ctx, collection, some); err != nil {
				return err
			}
			docs = docs[len(some):]
		}
	}
	return nil
}

// gatewayRow asks for paraphrases of questions, as searches do. Each caller is a separate tenant,
// because a gateway lets no more requests of one tenant wait than it has slots.
func (b *workersInstallation) gatewayRow(ctx context.Context, c *workersCommand) (stageRow, error) {
	callers := make([]uuid.UUID, llmCallers)
	for i := range callers {
		s, err := b.newSpace(ctx, fmt.Sprintf("caller-%d", i))
		if err != nil {
			return stageRow{}, err
		}
		callers[i] = s.Tenant
	}
	var model *waitingLLM
	return stageRow{name: "completions", what: "llm-gateways", unit: "completions/s",
		prepare: func(context.Context) (err error) {
			model, err = newWaitingLLM(c.LLM)
			return err
		},
		scale: func(ctx context.Context, count int) error {
			if model == nil {
				return nil
			}
			err := b.scale(ctx, "llm-gateway", count, "SLUICE_LLM_BASE_URL="+model.url, "SLUICE_LLM_MODEL=waiting", "SLUICE_LLM_FORMAT=text",
				fmt.Sprintf("SLUICE_LLM_CALLS=%d", llmSlots))
			if count == 0 {
				err = errors.Join(err, model.close())
			}
			return err
		},
		work: func(ctx context.Context) (workResult, error) {
			return b.runCallers(ctx, len(callers), c.Window, func(err error) bool { return errors.Is(err, schema.ErrTenantOverloaded) },
				func(ctx context.Context, caller, _ int) error {
					ctx = bus.Cancels(ctx, func(error) bool { return true }) // cancel the request when the caller leaves
					// No question is repeated, because gateways cache replies.
					reply, err := bus.Request[wire.LLMReply](ctx, b.nc, wire.LLMSubject, wire.LLMRequest{Envelope: wire.Header(), Tenant: callers[caller],
						Task: wire.TaskRewrite, Step: wire.Step{Step: "rewrite"}, Question: "What is asked as " + schema.NewID().String() + "?"})
					if err == nil && reply.Error != nil {
						err = reply.Error
					}
					return err
				})
		}}, nil
}

// ingestRow ingests documents. More documents wait than can be processed during the measurement.
func (b *workersInstallation) ingestRow(c *workersCommand, w *writer) stageRow {
	return stageRow{name: "documents", what: "ingest-workers", unit: "documents/s",
		prepare: func(ctx context.Context) error {
			b.service.Store(int64(c.Documents))
			collections, err := b.collections(ctx, "ingested", ingestCollections)
			if err != nil {
				return err
			}
			windows := float64(c.Rounds) * c.Window.Seconds() / 4
			return b.upload(ctx, w, collections, int(ingestDocuments*max(1, windows)))
		},
		scale: func(ctx context.Context, count int) error {
			return b.scale(ctx, "ingest-worker", count, fmt.Sprintf("SLUICE_INGEST_BATCHES=%d", ingestSlots), fmt.Sprintf("SLUICE_INGEST_BATCH_SIZE=%d", ingestBatch))
		},
		work: func(ctx context.Context) (workResult, error) {
			if err := pauseFor(ctx, c.Window); err != nil { // until all workers have batches open
				return workResult{}, err
			}
			out, err := b.during(ctx, 4*c.Window, func(ctx context.Context) (float64, error) {
				return single[float64](ctx, b.workbench, `SELECT count(*)::float8 FROM versions WHERE state = 'ready'`)
			})
			if err != nil {
				return out, err
			}
			left, err := single[int](ctx, b.workbench, `SELECT count(*)::int FROM versions WHERE state IN ('received', 'queued')`)
			if err == nil && left == 0 {
				err = errors.New("the documents came to an end while they were measured")
			}
			return out, err
		}}
}

// modelsRow calls simulated model servers with one slot each. It shows how NATS distributes
// requests in a queue group, which is random, and nothing about real model servers.
func (b *workersInstallation) modelsRow(c *workersCommand) stageRow {
	type one struct {
		nc *nats.Conn
		*waitingModels
	}
	var running []one
	var client *modelclient.Client
	return stageRow{name: "models", what: "waiting model servers, divided by NATS alone", unit: "requests/s",
		prepare: func(ctx context.Context) (err error) {
			b.service.Store(int64(modelTime))
			client = modelclient.New(b.nc, modelclient.Options{Log: slog.New(slog.DiscardHandler)})
			err, b.models = b.models.close(), nil
			return err
		},
		scale: func(ctx context.Context, count int) error {
			var errs []error
			for _, m := range running { // all of them, because requests of callers that have left may wait there
				errs = append(errs, m.close())
				m.nc.Close()
			}
			running = nil
			for len(running) < count {
				nc, err := bus.Connect(ctx, bus.Options{URL: b.url, Name: "waiting model server"})
				if err != nil {
					return err
				}
				m, err := newWaitingModels(nc, &b.service, modelSlots)
				if err != nil {
					nc.Close()
					return err
				}
				running = append(running, one{nc, m})
			}
			return errors.Join(errs...)
		},
		work: func(ctx context.Context) (workResult, error) {
			return b.runCallers(ctx, modelCallers, c.Window, func(error) bool { return false }, func(ctx context.Context, caller, n int) error {
				_, _, err := client.Encode(ctx, wire.LaneBulk, []string{fmt.Sprintf("text %d of caller %d", n, caller)})
				return err
			})
		}}
}
