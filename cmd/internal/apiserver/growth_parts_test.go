//go:build cgo

package apiserver_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-rag/sluice/cmd/internal/llmgateway"
	"github.com/sluice-rag/sluice/cmd/internal/queryworker"
	"github.com/sluice-rag/sluice/internal/bus"
	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/documents"
	"github.com/sluice-rag/sluice/internal/durable"
	"github.com/sluice-rag/sluice/internal/inference"
	"github.com/sluice-rag/sluice/internal/ingest"
	"github.com/sluice-rag/sluice/internal/ingest/batch"
	"github.com/sluice-rag/sluice/internal/lifecycle"
	"github.com/sluice-rag/sluice/internal/local"
	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/internal/modelclient"
	"github.com/sluice-rag/sluice/internal/store/ledger"
	"github.com/sluice-rag/sluice/internal/store/questions"
	"github.com/sluice-rag/sluice/internal/waittest"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// startParts runs the parts that answer questions besides the API: a model server, a gateway, a
// relay and a query worker.
func (g *growthTest) startParts() {
	g.t.Helper()
	ctx := waittest.Context(g.t)
	must := func(err error) {
		g.t.Helper()
		if err != nil {
			g.t.Fatal(err)
		}
	}
	run := func(s lifecycle.Service, err error) {
		g.t.Helper()
		must(err)
		must(s.Start(ctx))
		g.t.Cleanup(func() {
			if err := s.Stop(waittest.Context(g.t)); err != nil {
				g.t.Error(err)
			}
		})
	}
	library, err := local.FindONNXRuntime()
	must(err)
	model, err := inference.Open(inference.Options{Pack: "../../../models/default", Library: library, Provider: "cpu", Threads: 1})
	must(err)
	g.t.Cleanup(func() {
		if err := model.Close(); err != nil {
			g.t.Error(err)
		}
	})
	run(inference.NewServer(g.nats, model, inference.ServerOptions{}), nil)
	g.model = modelclient.New(g.nats, modelclient.Options{})
	temporal, err := local.NewTemporal(local.TemporalOptions{Dir: filepath.Join(localtest.Dir(g.t), "temporal")})
	must(err)
	must(temporal.Start(ctx))
	g.t.Cleanup(temporal.Kill)
	client, err := durable.Dial(ctx, durable.Options{Address: temporal.Address(), Namespace: "default", Name: g.t.Name()})
	must(err)
	g.t.Cleanup(client.Close)
	run(llmgateway.New(config.LLM{LLMProvider: "extractive"}, llmgateway.Deps{Store: g.store.Store, NATS: g.nats}))
	js, err := jetstream.New(g.nats)
	must(err)
	streams := func(ctx context.Context) error { return bus.EnsureStreams(ctx, js, bus.StreamLimits{PerTenant: 1000}) }
	must(streams(ctx))
	run(ingest.NewRelay(g.store, g.nats, streams, ingest.Defaults("relay")))
	run(queryworker.New(queryworker.Settings{
		Answering: config.Answering{QueryConcurrency: 4, QueryQuestions: 4, QueryTimeout: waittest.Left(g.t),
			QuestionLease: 30 * time.Second, SlowSearch: 1,
			LexicalCache: -1}, // nothing is cached, so every statement of a search is seen
		Streams: config.Streams{QueuePerTenant: 1000},
		Queue:   4, Wait: waittest.Left(g.t), SlowQuestion: 1,
	}, queryworker.Deps{Store: g.store.Store, NATS: g.nats, Temporal: client}))
}

// write processes a batch of documents with the store's part of ingestion.
func (g *growthTest) write(name string) {
	g.t.Helper()
	ctx, tenant := g.t.Context(), g.principal().Tenant
	must := func(err error) {
		g.t.Helper()
		if err != nil {
			g.t.Fatal(err)
		}
	}
	var uploads []schema.Upload
	for i := range 64 {
		uploads = append(uploads, schema.Upload{ExternalID: fmt.Sprintf("%s/written %d", name, i), MediaType: "text/plain",
			Content: strings.NewReader(fmt.Sprintf("words of %s %d", name, i))})
	}
	up, err := documents.New(g.store, documents.Options{}).Upload(ctx, g.principal(), g.collection, uploads)
	must(err)
	relay := batch.Lease{Holder: "test", TTL: time.Minute}
	for done := (batch.Relayed{}); ; {
		taken, err := g.store.RelayOutbox(ctx, done, batch.Round{Lease: relay, PerSubject: 500, Limit: 500, Subjects: 500})
		must(err)
		if len(taken.Subjects) == 0 {
			break
		}
		done = batch.Relayed{Holder: relay.Holder, Subjects: taken.Subjects}
		for _, m := range taken.Messages {
			done.Sent = append(done.Sent, m.ID)
		}
	}
	var items []wire.Attempt
	for _, u := range up {
		items = append(items, wire.Attempt{Version: u.Version, Attempt: 1})
	}
	lease := batch.Lease{Holder: "test", TTL: time.Minute}
	items, err = g.store.ClaimVersions(ctx, tenant, items, lease)
	must(err)
	_, err = g.store.ExtendLeases(ctx, tenant, items, lease)
	must(err)
	sources, err := g.store.Sources(ctx, tenant, items)
	must(err)
	_, err = g.store.Blobs(ctx, tenant, [][]byte{sources[0].SHA256})
	must(err)
	_, err = g.store.BeginParses(ctx, tenant, items[:1], lease.Holder, items[1:3])
	must(err)
	must(g.store.CountDeath(ctx, tenant, items[0]))
	must(g.store.EndParses(ctx, tenant, items[:1], lease.Holder))
	vectors, space, err := g.model.Encode(ctx, wire.LaneBulk, []string{"words"})
	must(err)
	var artifacts []batch.Artifact
	var docs []batch.Document
	for _, item := range items {
		artifacts = append(artifacts, batch.Artifact{Attempt: item, Data: []byte("x")})
		section := batch.Section{Section: schema.Section{ID: schema.NewID(), Text: "words", Tokens: 1}}
		section.Passages = []schema.Passage{{ID: schema.NewID(), SectionID: section.ID, End: 5, Tokens: 1}}
		d := batch.Document{Attempt: item, Vectors: batch.NewVectors(space, vectors.Dimension, vectors.Row(0))}
		d.Text.Sections = []batch.Section{section}
		docs = append(docs, d)
	}
	must(g.store.SaveArtifacts(ctx, tenant, batch.Stage("parsed"), artifacts))
	_, err = g.store.Artifacts(ctx, tenant, batch.Stage("parsed"), items)
	must(err)
	_, err = g.store.LiveRecipe(ctx, tenant, g.collection)
	must(err)
	must(g.store.FailVersions(ctx, tenant, []batch.Failure{{Attempt: items[0], Reason: schema.Reason{Code: "broken", Message: "no text"}}}))
	must(g.store.ReleaseVersions(ctx, tenant, items[1:2]))
	outcomes, err := g.store.WriteVersions(ctx, tenant, g.collection, docs[2:])
	must(err)
	if len(outcomes) > 0 {
		g.t.Fatalf("%+v", outcomes)
	}
	// Curation, whose cost grows with what it clusters, has its own statements.
	g.admin(g.t, `UPDATE versions SET curated = true WHERE state = 'ready' AND NOT curated`)
}

// curateAll does the background work.
func (g *growthTest) curateAll() {
	g.t.Helper()
	ctx, tenant := g.t.Context(), g.principal().Tenant
	_, _, expired := g.store.RequeueExpired(ctx, time.Minute, time.Second, 500)
	_, _, backlogs := g.store.Backlogs(ctx, time.Now().Add(-time.Hour))
	_, _, depth := g.store.OutboxDepth(ctx)
	_, uncurated := g.store.Uncurated(ctx, uuid.Nil, time.Hour, time.Hour, 20)
	_, purged := g.store.PurgeOnce(ctx, 200)
	_, merged := g.store.MergeSegments(ctx, tenant, g.collection)
	_, dropped := g.store.DropMerged(ctx, tenant, g.collection, time.Hour)
	_, _, removed := g.store.RemoveGenerations(ctx, tenant, g.collection, time.Hour, 500)
	_, stranded := g.store.RequeueStranded(ctx, tenant, time.Now(), 500)
	_, waiting := g.store.WaitingTenants(ctx, time.Now())
	_, cached := g.store.ForgetCached(ctx, time.Hour, 500)
	_, calls := g.store.ForgetCalls(ctx, ledger.Retention{Calls: 90, SearchCalls: 30, Days: 800}, 500)
	_, questions := g.store.ForgetQuestions(ctx, questions.QuestionRetention{Questions: 365, Retrievals: 90}, 500)
	for _, err := range []error{dropped, removed, stranded, waiting, cached, calls, questions, expired, backlogs, depth, uncurated, purged, merged, g.store.SweepArtifacts(ctx, time.Hour, 500)} {
		if err != nil {
			g.t.Error(err)
		}
	}
}
