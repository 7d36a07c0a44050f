package ingestworker

// Documents of many collections and tenants share batches, and their collections are
// curated together. What that costs is counted in workflows and transactions.

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/converter"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/stores"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/wire"
)

// uploadInto creates collections and uploads a number of documents into each.
func (w *world) uploadInto(collections, each int) {
	w.t.Helper()
	for i := range collections {
		c, err := w.store.CreateCollection(w.context(), w.principal, schema.NewCollection{Name: fmt.Sprintf("c-%d", i)})
		w.ok(err)
		w.collection = c.ID
		files := map[string]string{}
		for j := range each {
			files[fmt.Sprintf("doc-%d-%d.md", i, j)] = document(fmt.Sprintf("topic %d of %d", j, i), 1)
		}
		w.uploadAll(files)
	}
}

// awaitAll waits until a number of documents of all tenants are ready.
func (w *world) awaitAll(ready int) {
	w.t.Helper()
	w.await(fmt.Sprintf("%d ready documents", ready), func() bool {
		return w.count(`SELECT count(*) FROM versions WHERE state = 'ready'`) == ready
	})
}

// workflows counts the workflows of each type that were started.
func (w *world) workflows() map[string]int {
	w.t.Helper()
	out := map[string]int{}
	var page []byte
	for {
		list, err := w.client.ListWorkflow(w.context(), &workflowservice.ListWorkflowExecutionsRequest{Namespace: w.temporal.Namespace, NextPageToken: page})
		w.ok(err)
		for _, e := range list.Executions {
			out[e.Type.Name]++
		}
		if page = list.NextPageToken; len(page) == 0 {
			return out
		}
	}
}

// batches returns the inputs of the workflows of batches, in the order in which these began.
func (w *world) batches() []wire.IngestVersions {
	w.t.Helper()
	list, err := w.client.ListWorkflow(w.context(), &workflowservice.ListWorkflowExecutionsRequest{
		Namespace: w.temporal.Namespace, Query: "WorkflowType = '" + wire.WorkflowIngestVersions + "'"})
	w.ok(err)
	slices.SortFunc(list.Executions, func(a, b *workflowpb.WorkflowExecutionInfo) int {
		return a.StartTime.AsTime().Compare(b.StartTime.AsTime())
	})
	out := make([]wire.IngestVersions, len(list.Executions))
	for i, e := range list.Executions {
		began, err := w.client.GetWorkflowHistory(w.context(), e.Execution.WorkflowId, e.Execution.RunId, false,
			enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT).Next()
		w.ok(err)
		w.ok(converter.GetDefaultDataConverter().FromPayloads(began.GetWorkflowExecutionStartedEventAttributes().GetInput(), &out[i]))
	}
	return out
}

// transactions returns the number of transactions in the database, without those of count. It
// reopens the store, because backends report their statistics when they end.
func (w *world) transactions() int {
	w.t.Helper()
	w.store.Close()
	// Only this test's session, which only listens, remains.
	w.poll("backends to end", func() bool {
		return w.count(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`) <= 1
	})
	n := w.count(`SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()`)
	db, err := store.Open(w.context(), w.url, store.Options{})
	w.ok(err)
	w.store = stores.Of(db)
	w.t.Cleanup(db.Close)
	return n - w.counted
}

const uncuratedSQL = `SELECT count(*) FROM versions WHERE state IN ('ready', 'superseded') AND NOT curated`

// ingestCost ingests 400 documents into a number of collections, and returns the workflows and the
// number of transactions, curation included.
func ingestCost(t *testing.T, collections int) (workflows map[string]int, transactions int) {
	w := newWorld(t)
	w.settings.IngestBatchSize, w.settings.IngestReconcile = 64, 5*time.Second
	w.options = w.settings.Options()
	w.options.BatchWait = 2 * time.Second // no batch starts before it is full
	const documents = 400
	w.uploadInto(collections, documents/collections)
	before := w.transactions()
	stop := w.start()
	w.awaitAll(documents)
	w.poll("curation", func() bool { return w.count(uncuratedSQL) == 0 })
	stop()
	w.checkStored()
	if n := w.count(`SELECT count(DISTINCT collection_id) FROM cluster_members`); n != collections {
		t.Errorf("%d of %d collections are clustered", n, collections)
	}
	return w.workflows(), w.transactions() - before
}

func TestManyCollectionsCostFewWorkflowsAndTransactions(t *testing.T) {
	one, oneTransactions := ingestCost(t, 1)
	many, manyTransactions := ingestCost(t, 100)
	t.Logf("one collection: %v, %d transactions; 100: %v, %d", one, oneTransactions, many, manyTransactions)
	for name, workflows := range map[string]map[string]int{"in one collection": one, "in 100": many} {
		all := 0
		for _, n := range workflows {
			all += n
		}
		if all > 16 {
			t.Errorf("400 documents %s took %v, want 16 workflows at most", name, workflows)
		}
	}
	if oneTransactions > 600 {
		t.Errorf("400 documents in one collection took %d transactions, want 1.5 each at most", oneTransactions)
	}
	if manyTransactions > 3*400 {
		t.Errorf("400 documents in 100 collections took %d transactions, want 3 each at most", manyTransactions)
	}
}

// In a batch of several tenants, a failure of one does not affect the others.
func TestTenantsInOneBatchFailApart(t *testing.T) {
	w := newWorld(t)
	w.options.BatchWait = 5 * time.Second
	var refused atomic.Pointer[string]
	w.models.before = func(_ context.Context, op wire.ModelOp, texts []string) error {
		if bad := refused.Load(); op == wire.OpEncode && bad != nil && strings.Contains(strings.Join(texts, " "), *bad) {
			return fmt.Errorf("a fault of the program over %s", *bad)
		}
		return nil
	}
	var tenants []uuid.UUID
	for i := range 5 {
		w.addTenant()
		tenants = append(tenants, w.principal.Tenant)
		w.upload("a.md", document(fmt.Sprintf("tenant%d", i), 2))
		if i == 2 {
			bad := "tenant2"
			refused.Store(&bad)
			w.upload("bad.md", "BROKEN")
		}
	}
	w.start()
	w.awaitAll(4)
	w.await("the failures", func() bool { return w.count(`SELECT count(*) FROM versions WHERE state = 'failed'`) == 2 })
	if n := w.count(`SELECT count(*) FROM versions WHERE state = 'failed' AND tenant_id <> $1`, tenants[2]); n != 0 {
		t.Errorf("%d versions of other tenants failed", n)
	}
	if n := w.workflows()[wire.WorkflowIngestVersions]; n != 1 {
		t.Errorf("%d batches, want one", n)
	}
	w.checkStored()
}

// In one tenant's batch, a collection whose write fails because of a fault of the program fails
// alone.
func TestCollectionsInOneBatchFailApart(t *testing.T) {
	w := newWorld(t)
	w.options.BatchWait = 2 * time.Second
	w.uploadInto(4, 2)
	bad := w.collection
	w.models.before = func(_ context.Context, op wire.ModelOp, texts []string) error {
		if op == wire.OpSegment && strings.Contains(strings.Join(texts, " "), "of 3") {
			return fmt.Errorf("a fault of the program")
		}
		return nil
	}
	w.start()
	w.awaitAll(6)
	w.await("the failures", func() bool {
		return w.count(`SELECT count(*) FROM versions WHERE state = 'failed' AND reason_code = 'rejected'`) == 2
	})
	if n := w.count(`SELECT count(*) FROM versions WHERE state = 'failed' AND collection_id <> $1`, bad); n != 0 {
		t.Errorf("%d versions of other collections failed", n)
	}
	w.checkStored()
}

// Collections that were not signalled are found and curated together. Removing the rest of a
// deleted one takes time, so it has a curation of its own.
func TestCollectionsAreFoundTogether(t *testing.T) {
	w := newWorld(t)
	w.settings.CurateAfter, w.settings.CurateKeep = time.Second, -1
	w.uploadInto(3, 2)
	stop := w.start()
	w.awaitAll(6)
	w.poll("curation", func() bool { return w.count(uncuratedSQL) == 0 })
	stop()
	deleted := make([]uuid.UUID, 2)
	for i := range deleted {
		c, err := w.store.Collection(w.context(), w.principal, fmt.Sprintf("c-%d", i))
		w.ok(err)
		w.ok(w.store.DeleteCollection(w.context(), w.principal, c.ID))
		deleted[i] = c.ID
	}
	for { // so that one round finds the rest of both
		n, err := w.store.EmptyCollections(w.context(), 100)
		w.ok(err)
		if n == 0 {
			break
		}
	}
	w.poll("both to be old enough for that", func() bool {
		list, err := w.store.Uncurated(w.context(), uuid.Nil, w.settings.CurateAfter, 0, 100)
		w.ok(err)
		return !slices.ContainsFunc(deleted, func(id uuid.UUID) bool {
			return !slices.ContainsFunc(list, func(c wire.Curation) bool { return c.Collection == id })
		})
	})
	w.start()
	w.poll("the deleted collections to be removed", func() bool { return w.count(`SELECT count(*) FROM cluster_members`) == 2 })
	w.poll("both to be found together, and then curated alone", func() bool {
		n := w.workflows()
		return n[wire.WorkflowCurateMany] >= 2 && n[wire.WorkflowCurate] >= 2
	})
	w.saveHistories(wire.WorkflowCurateMany, "curate_together", "alone")
}

// While many documents wait, batches are larger.
func TestBatchesGrowWhileManyWait(t *testing.T) {
	w := newWorld(t)
	w.settings.IngestBatchSize, w.settings.IngestBatches = 8, 2
	w.options = w.settings.Options()
	w.options.BatchWait = 2 * time.Second
	w.uploadAll(someDocuments(64))
	stop := w.relay()
	w.events(w.principal.Tenant, 64) // published in one round with the messages
	stop()
	w.start()
	w.awaitAll(64)
	if n := w.workflows()[wire.WorkflowIngestVersions]; n > 4 {
		t.Errorf("64 documents that waited were %d batches of up to %d, want 4 at most", n, 8*4)
	}
	w.checkStored()
}

// The documents of a large tenant do not delay the few of another.
func TestMuchOfOneTenantGoesNotBeforeLittleOfAnother(t *testing.T) {
	w := newWorld(t)
	w.settings.IngestBatchSize, w.settings.IngestBatches = 8, 1
	w.options = w.settings.Options()
	w.options.BatchWait = 2 * time.Second
	w.uploadAll(someDocuments(24))
	stop := w.relay()
	w.events(w.principal.Tenant, 24)
	stop()
	w.addTenant()
	quiet := w.principal.Tenant
	w.upload("a.md", document("quiet", 2))
	w.upload("b.md", document("quiet", 2))
	stop = w.relay()
	w.events(quiet, 2)
	stop()
	w.start()
	w.awaitAll(26)
	ahead := 0
	for _, batch := range w.batches() {
		if slices.ContainsFunc(batch.Parts, func(p wire.IngestBatch) bool { return p.Tenant == quiet }) {
			break
		}
		ahead += batch.Versions()
	}
	if ahead > 8 {
		t.Errorf("%d documents of the other tenant were in batches before, want a batch of 8 at most", ahead)
	}
}
