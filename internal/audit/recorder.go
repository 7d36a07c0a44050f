package audit

// This file records reads: it accepts them from requests, which never wait, and writes them in
// batches.

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
	// recordEvery is the longest time that a read waits for others.
	recordEvery = time.Second
	// recordFull is the number of waiting reads at which they are written at once.
	recordFull = 500
	// recordBytes bounds the waiting reads, for example while the database is down. Reads beyond it
	// are lost, and counted.
	recordBytes = 32 << 20
	// recordTime bounds the time of one attempt to write.
	recordTime = 30 * time.Second
	// unknownMost is how many requests with unknown keys are recorded in unknownTime. Anybody can
	// send such requests; those beyond it are counted, in one entry.
	unknownMost = 60
	unknownTime = time.Minute
	// entryBytes is the size of an entry without its texts.
	entryBytes = 512
)

// ActionLost is the action of an entry with the number of reads that were not recorded.
const ActionLost = "reads-lost"

// Writer appends reads to a tenant's chain. Its error is schema.ErrNotFound when there is no such
// tenant.
type Writer interface {
	AppendReads(ctx context.Context, tenant uuid.UUID, reads []schema.AuditRead) error
}

// Recorder accepts reads and writes them in batches. Reads that it cannot hold are counted, in the
// metric sluice.audit.lost and in an entry of their tenant's chain. It drops reads of a tenant that
// was erased.
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
	unknown int       // requests with unknown keys since since
	since   time.Time // start of the current unknownTime
}

// NewRecorder returns a Recorder that writes to w while Run runs.
func NewRecorder(w Writer) *Recorder {
	lost, err := otel.Meter("github.com/sluice-rag/sluice/internal/audit").Int64Counter("sluice.audit.lost",
		metric.WithUnit("{read}"), metric.WithDescription("Reads that were lost before they were written to the audit log."))
	if err != nil {
		otel.Handle(err)
	}
	return &Recorder{writer: w, now: time.Now, lostBy: lost, full: make(chan struct{}, 1),
		waiting: map[uuid.UUID][]schema.AuditRead{}, lost: map[uuid.UUID]int{}}
}

// Record accepts a read of a tenant. It does not block.
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

// admitUnknown counts a request with an unknown key, and reports whether it is to be recorded.
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

// Run writes accepted reads until ctx ends.
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

// Flush writes all waiting reads. Those that cannot be written now keep waiting.
func (r *Recorder) Flush(ctx context.Context) error { return r.flush(ctx, true) }

// flush keeps the count of requests with unknown keys until the end of their unknownTime, unless
// all is set.
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

// write writes a batch. If the database refuses the batch, its reads are written one by one, and
// those that the database refuses are lost.
func (r *Recorder) write(ctx context.Context, tenant uuid.UUID, batch []schema.AuditRead) error {
	ctx, cancel := context.WithTimeout(ctx, recordTime)
	defer cancel()
	err := r.writer.AppendReads(ctx, tenant, batch)
	if errors.Is(err, schema.ErrNotFound) {
		slog.InfoContext(ctx, "dropped reads of a tenant that was erased", "tenant", tenant, "reads", len(batch))
		return nil
	}
	if err == nil || !errors.Is(err, schema.ErrInvalid) {
		return err
	}
	if len(batch) == 1 {
		slog.ErrorContext(ctx, "the database refused an entry of the audit log; it is lost", "tenant", tenant, "action", batch[0].Action, "error", err)
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
