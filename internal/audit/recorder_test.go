package audit

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-rag/sluice/schema"
)

// chains keeps appended reads in memory: internal/store tests the real writer.
type chains struct {
	reads map[uuid.UUID][]schema.AuditRead
	err   error
}

func (c *chains) AppendReads(_ context.Context, tenant uuid.UUID, reads []schema.AuditRead) error {
	if c.err == nil {
		c.reads[tenant] = append(c.reads[tenant], reads...)
	}
	return c.err
}

func TestReadsWaitWhileTheyCannotBeWritten(t *testing.T) {
	c := &chains{map[uuid.UUID][]schema.AuditRead{}, schema.ErrUnavailable}
	r, tenant := NewRecorder(c), uuid.New()
	for i := range recordFull + 2 {
		r.Record(tenant, schema.AuditRead{Query: fmt.Sprint(i)})
	}
	if err := r.Flush(t.Context()); err == nil {
		t.Error("no error, though nothing was written")
	}
	r.Record(tenant, schema.AuditRead{Query: "last"})
	c.err = nil
	if err := r.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := c.reads[tenant]
	if len(got) != recordFull+3 || got[0].Query != "0" || got[recordFull+2].Query != "last" {
		t.Errorf("%d reads", len(got))
	}
}

// TestReadsOfAnErasedTenantAreDropped: they neither wait nor count as lost.
func TestReadsOfAnErasedTenantAreDropped(t *testing.T) {
	c := &chains{map[uuid.UUID][]schema.AuditRead{}, fmt.Errorf("no such tenant: %w", schema.ErrNotFound)}
	r, tenant := NewRecorder(c), uuid.New()
	for range recordFull + 2 {
		r.Record(tenant, schema.AuditRead{Query: "q"})
	}
	if err := r.Flush(t.Context()); err != nil {
		t.Error(err)
	}
	c.err = nil
	if err := r.Flush(t.Context()); err != nil || len(c.reads) != 0 {
		t.Errorf("%d reads waited, %v", len(c.reads[tenant]), err)
	}
}

func TestFloodsOfWrongKeysAreCounted(t *testing.T) {
	c := &chains{reads: map[uuid.UUID][]schema.AuditRead{}}
	r := NewRecorder(c)
	now := time.Now()
	r.now = func() time.Time { return now }
	for range 7 {
		for range unknownMost/7 + 2 {
			r.Record(schema.Nobody, schema.AuditRead{Action: "search", Status: 401})
		}
		if err := r.flush(t.Context(), false); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(c.reads[schema.Nobody]); n != unknownMost {
		t.Errorf("%d entries within their time, want %d", n, unknownMost)
	}
	now = now.Add(unknownTime)
	if err := r.flush(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	got := c.reads[schema.Nobody]
	if len(got) != unknownMost+1 || got[unknownMost].Action != ActionLost || got[unknownMost].Query != fmt.Sprintf("%d reads were not recorded", 7*(unknownMost/7+2)-unknownMost) {
		t.Errorf("%d reads, the last %+v", len(got), got[len(got)-1])
	}
}

func TestWhatIsLostIsTold(t *testing.T) {
	c := &chains{reads: map[uuid.UUID][]schema.AuditRead{}}
	r, tenant := NewRecorder(c), uuid.New()
	n := recordBytes/entryBytes + 5
	for range n {
		r.Record(tenant, schema.AuditRead{Action: "search"})
	}
	if err := r.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := c.reads[tenant]
	if len(got) != n-5+1 || got[n-5].Query != "5 reads were not recorded" {
		t.Errorf("%d reads, the last %+v", len(got), got[len(got)-1])
	}
}
