package ingest

import (
	"runtime"
	"time"

	"github.com/sluice-rag/sluice/internal/ingest/batch"
	"github.com/sluice-rag/sluice/schema"
)

// Options are the settings of ingestion.
type Options struct {
	// Holder names this process in leases. It must be unique to the process.
	Holder string
	// Batches is the maximum number of batches that this worker holds open.
	Batches int
	// BatchesInSearches is the maximum number that it holds open while somebody searches. More than
	// Batches counts as Batches.
	BatchesInSearches int
	// BatchVersions, BatchBytes and BatchWait bound one batch: its versions, its bytes, and how
	// long it waits to fill. A larger document is a batch by itself.
	BatchVersions int
	BatchBytes    int64
	BatchWait     time.Duration
	// Parallel is how many documents of a batch are parsed at a time.
	Parallel int
	// Tries is how often a stage is tried that fails through a fault of this program, not through a
	// document or the environment. After that its versions fail, so that none is stuck without a
	// reason.
	Tries int
	// Lease is how long a version stays with a worker that shows no sign of life.
	Lease time.Duration
	// Grace is how long it stays with a worker whose process is known to be dead. It is longer than
	// Temporal takes to give the worker's activities to another one, so that work in progress is
	// continued and not started again.
	Grace time.Duration
	// Requeue is how much older than the oldest message of its tenant a queued
	// version must be for its message to count as lost.
	Requeue time.Duration
	// Reconcile is the interval of the reconciler.
	Reconcile time.Duration
	// Poll is the longest interval at which the relay polls the outbox when nothing wakes it.
	Poll time.Duration
}

// Defaults returns the settings of a worker with this holder name.
func Defaults(holder string) Options {
	return Options{
		Holder: holder, Batches: min(max(2, runtime.GOMAXPROCS(0)), 4), BatchesInSearches: max(1, runtime.GOMAXPROCS(0)/2),
		BatchVersions: batch.MaxVersions, BatchBytes: batch.MaxBytes, BatchWait: 200 * time.Millisecond,
		Parallel: runtime.GOMAXPROCS(0), Tries: 10,
		Lease: time.Minute, Grace: 15 * time.Second, Requeue: 30 * time.Second,
		Reconcile: 5 * time.Second, Poll: time.Second,
	}
}

// Validate reports the first setting that is out of range.
func (o Options) Validate() error {
	switch {
	case o.Holder == "":
		return schema.Invalid("holder", "must not be empty")
	case o.Batches < 1:
		return schema.Invalid("ingest batches", "must be at least 1, is %d", o.Batches)
	case o.BatchesInSearches < 1:
		return schema.Invalid("ingest batches during searches", "must be at least 1, is %d", o.BatchesInSearches)
	case o.BatchVersions < 1 || o.BatchVersions > 1000:
		return schema.Invalid("ingest batch size", "must be between 1 and 1000, is %d", o.BatchVersions)
	case o.BatchBytes < 1:
		return schema.Invalid("ingest batch bytes", "must be at least 1, is %d", o.BatchBytes)
	case o.BatchWait < 0 || o.BatchWait > 10*time.Second:
		return schema.Invalid("ingest batch wait", "must be between 0 and 10s, is %s", o.BatchWait)
	case o.Parallel < 1:
		return schema.Invalid("ingest parallel", "must be at least 1, is %d", o.Parallel)
	case o.Tries < 1:
		return schema.Invalid("ingest tries", "must be at least 1, is %d", o.Tries)
	case o.Lease < time.Second:
		return schema.Invalid("ingest lease", "must be at least 1s, is %s", o.Lease)
	case o.Grace < 0 || o.Grace > o.Lease:
		return schema.Invalid("ingest grace", "must be between 0 and the lease (%s), is %s", o.Lease, o.Grace)
	case o.Requeue <= 0:
		return schema.Invalid("ingest requeue", "must be positive, is %s", o.Requeue)
	case o.Reconcile <= 0:
		return schema.Invalid("ingest reconcile", "must be positive, is %s", o.Reconcile)
	case o.Poll <= 0:
		return schema.Invalid("ingest poll", "must be positive, is %s", o.Poll)
	}
	return nil
}

// lease returns this worker's lease.
func (o Options) lease() batch.Lease { return batch.Lease{Holder: o.Holder, TTL: o.Lease} }
