package audit

// This file records reads: it takes them from requests, which never wait, and writes them
// in batches.

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"

	"github.com/sluice-rag/sluice/schema"
)

const (
	// recordEvery is how long a read waits for others at most.
	recordEvery = time.Second
	// recordFull is how many that wait are written at once.
	recordFull = 500
	// recordBytes bounds what waits, as while the database is away. More is lost, and counted.
	recordBytes = 32 << 20
	// recordTime is for how long one try to write may go on.
	recordTime = 30 * time.Second
	// unknownMost is how many requests with keys of nobody are recorded in unknownTime. Everybody
	// can send them; more are counted, in one entry.
	unknownMost = 60
	unknownTime = time.Minute
	// entryBytes is what an entry takes beside its texts.
	entryBytes = 512
)

// ActionLost is the action of an entry that says how many reads were not recorded.
const ActionLost = "reads-lost"

// Writer puts reads at the end of a tenant's chain.
type Writer interface {
	AppendReads(ctx context.Context, tenant uuid.UUID, reads []schema.AuditRead) error
}

// Recorder takes reads and writes them in batches. What it cannot hold is counted, in the metric
// sluice.audit.lost and in an entry of its tenant's chain.
type Recorder struct {
	writer Writer
	now    func() time.Time
	lostBy metric.Int64Counter
	full   chan struct{}

	mu      sync.Mutex
	waiting map[uuid.UUID][]schema.AuditRead
	number  int
	bytes   int
	lost    map[uuid.UUID]int
	unknown int       // requests with keys of nobody since unknownSince
	since   time.Time // the start of their time
}

// NewRecorder returns one that writes with w while Run runs.
func NewRecorder(w Writer) *Recorder {
	lost, err := otel.Meter("github.com/sluice-rag/sluice/internal/audit").Int64Counter("sluice.audit.lost",
		metric.WithUnit("{read}"), metric.WithDescription("Reads that the audit log does not have."))
	if err != nil {
		otel.Handle(err)
	}
	return &Recorder{writer: w, now: time.Now, lostBy: lost, full: make(chan struct{}, 1),
		waiting: map[uuid.UUID][]schema.AuditRead{}, lost: map[uuid.UUID]int{}}
}

// Record takes a read of a tenant. It does not block.
func (r *Recorder) Record(tenant uuid.UUID, read schema.AuditRead) {
	r.mu.Lock()
	defer r.mu.Unlock()
	size := sizeOf(read)
	if r.bytes+size > recordBytes || tenant == schema.Nobody && !r.admitUnknown() {
		r.lose(tenant, 1)
		return
	}
	r.waiting[tenant] = append(r.waiting[tenant], read)
	r.bytes += size
	if r.number++; r.number >= recordFull {
		select {
		case r.full <- struct{}{}:
		default:
		}
	}
}

// admitUnknown counts a request with a key of nobody, and says whether it is recorded.
func (r *Recorder) admitUnknown() bool {
	if now := r.now(); now.Sub(r.since) >= unknownTime {
		r.since, r.unknown = now, 0
	}
	r.unknown++
	return r.unknown <= unknownMost
}

func (r *Recorder) lose(tenant uuid.UUID, n int) {
	r.lost[tenant] += n
	r.lostBy.Add(context.Background(), int64(n))
}

func sizeOf(read schema.AuditRead) int {
	size := entryBytes + len(uuid.UUID{})*len(read.Documents)
	for _, text := range [...]string{read.Query, read.KeyName, read.Person, read.Address, read.Agent, read.Collection, read.Target} {
		size += len(text)
	}
	return size
}

// Run writes what comes until ctx ends.
func (r *Recorder) Run(ctx context.Context) {
	ticker := time.NewTicker(recordEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-r.full:
		}
		if err := r.flush(ctx, false); err != nil && ctx.Err() == nil {
			slog.WarnContext(ctx, "cannot write to the audit log of reads; trying again", "error", err)
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
		}
	}
}

// Flush writes all that waits. What cannot be written for now waits on.
func (r *Recorder) Flush(ctx context.Context) error { return r.flush(ctx, true) }

// flush leaves the count of requests with keys of nobody for the end of their time, unless it is to
// write all.
func (r *Recorder) flush(ctx context.Context, all bool) error {
	r.mu.Lock()
	waiting, lost := r.waiting, r.lost
	r.waiting, r.lost, r.number, r.bytes = map[uuid.UUID][]schema.AuditRead{}, map[uuid.UUID]int{}, 0, 0
	if n := lost[schema.Nobody]; n > 0 && !all && r.now().Sub(r.since) < unknownTime {
		delete(lost, schema.Nobody)
		r.lost[schema.Nobody] = n
	}
	r.mu.Unlock()
	for tenant, n := range lost {
		waiting[tenant] = append(waiting[tenant], schema.AuditRead{ID: schema.NewID(), At: r.now().Truncate(time.Microsecond),
			Action: ActionLost, Query: fmt.Sprintf("%d reads were not recorded", n)})
	}
	var failures []error
	for tenant, reads := range waiting {
		for len(reads) > 0 {
			batch := reads[:min(len(reads), recordFull)]
			if err := r.write(ctx, tenant, batch); err != nil {
				failures = append(failures, err)
				r.putBack(tenant, reads)
				break
			}
			reads = reads[len(batch):]
		}
	}
	return errors.Join(failures...)
}

// write writes a batch. One that the database does not take as it is is written read by read, and
// those that it does not take are lost.
func (r *Recorder) write(ctx context.Context, tenant uuid.UUID, batch []schema.AuditRead) error {
	ctx, cancel := context.WithTimeout(ctx, recordTime)
	defer cancel()
	err := r.writer.AppendReads(ctx, tenant, batch)
	if err == nil || !errors.Is(err, schema.ErrInvalid) {
		return err
	}
	if len(batch) == 1 {
		slog.ErrorContext(ctx, "the database does not take an entry of the audit log", "tenant", tenant, "action", batch[0].Action, "error", err)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.lose(tenant, 1)
		return nil
	}
	for i := range batch {
		if err := r.write(ctx, tenant, batch[i:i+1]); err != nil {
			return err
		}
	}
	return nil
}

// putBack has reads wait again, before those that came meanwhile.
func (r *Recorder) putBack(tenant uuid.UUID, reads []schema.AuditRead) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, read := range reads {
		size := sizeOf(read)
		if r.bytes+size > recordBytes {
			r.lose(tenant, len(reads)-i)
			reads = reads[:i]
			break
		}
		r.bytes += size
	}
	r.number += len(reads)
	r.waiting[tenant] = append(reads[:len(reads):len(reads)], r.waiting[tenant]...)
}
