package fairness

import (
	"time"

	"github.com/google/uuid"
)

// Gathering says what makes a batch of items that wait.
type Gathering[T comparable] struct {
	// Size is what an item counts for, such as its bytes.
	Size func(T) int64
	// Items and Total are how many items and how much size a batch has at most. A larger item is a
	// batch by itself.
	Items int
	Total int64
	// Share and ShareTotal are the same of the tenant that goes first, while others wait.
	Share      int
	ShareTotal int64
	// Small is the most that an item counts for that shares a batch with other tenants' items.
	Small int64
}

// Batch is items that run together in one slot.
type Batch[T comparable] struct {
	Items   []T
	tenants []uuid.UUID // of the items
}

// Gather takes out what is next as one batch and begins it, if it may run now. The tenant that goes
// first gives its oldest items. When it has no more, tenants follow of which everything that waits
// is small and fits: those have little, and would otherwise each be a batch. So nobody's many items
// come into a batch before somebody's few. What an item counts for is charged to its tenant.
func (b *Background[T]) Gather(now time.Time, g Gathering[T]) (out Batch[T], found bool) {
	if !b.free(now) {
		return out, false
	}
	first := b.first(func(*tenant[T]) bool { return true })
	if first == nil {
		return out, false
	}
	items, total := g.Items, g.Total
	if len(b.ring) > 1 {
		items, total = min(items, g.Share), min(total, g.ShareTotal)
	}
	var size int64
	small := true
	for len(first.waiting) > 0 && len(out.Items) < items {
		next := g.Size(first.waiting[0])
		if len(out.Items) > 0 && size+next > total {
			break
		}
		size += next
		small = small && next <= g.Small
		b.gather(&out, first, next)
	}
	for small && len(first.waiting) == 0 && len(out.Items) < g.Items {
		next := b.first(func(t *tenant[T]) bool { return g.fits(t, g.Items-len(out.Items), g.Total-size) })
		if next == nil {
			break
		}
		for len(next.waiting) > 0 {
			n := g.Size(next.waiting[0])
			size += n
			b.gather(&out, next, n)
		}
	}
	b.running++
	return out, true
}

// fits reports whether everything of a tenant that waits is small, and goes into what is left of a
// batch.
func (g Gathering[T]) fits(t *tenant[T], items int, total int64) bool {
	if len(t.waiting) > items {
		return false
	}
	for _, item := range t.waiting {
		size := g.Size(item)
		if total -= size; size > g.Small || total < 0 {
			return false
		}
	}
	return true
}

// gather takes out a tenant's oldest item and charges it.
func (b *Background[T]) gather(out *Batch[T], t *tenant[T], size int64) {
	out.Items, out.tenants = append(out.Items, b.take(t)), append(out.tenants, t.id)
	b.Charge(t.id, time.Duration(size))
}

// EndBatch tells that a batch has run.
func (b *Background[T]) EndBatch(of Batch[T], now time.Time) {
	for _, id := range of.tenants {
		b.Queue.End(id, now)
	}
	b.running--
}

// Free reports whether more work may run.
func (b *Background[T]) Free(now time.Time) bool { return b.free(now) }
