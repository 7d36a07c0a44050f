package fairness

import (
	"time"

	"github.com/google/uuid"
)

// BatchLimits says how waiting items are grouped into a batch.
type BatchLimits[T comparable] struct {
	// Size returns the size of an item, such as its bytes.
	Size func(T) int64
	// Items and Total are the maximum number and total size of a batch's items. A larger item is a
	// batch by itself.
	Items int
	Total int64
	// Share and ShareTotal are the same for the items of the tenant that is served first, while
	// others wait.
	Share      int
	ShareTotal int64
	// Small is the maximum size of an item that shares a batch with other tenants' items.
	Small int64
}

// Batch is items that run together as one.
type Batch[T comparable] struct {
	Items   []T
	tenants []uuid.UUID // of the items
}

// NextBatch removes the next items from the queue as one batch and begins it, if it may run now. It
// starts with the oldest items of the tenant that is served first. If none of these is left, and
// all that were taken are small, it adds all items of further tenants, as long as they are small
// and fit: such tenants have little, and each would otherwise need its own batch. So a tenant with
// many items never fills a batch before one with few. The size of an item is charged to its tenant.
func (b *Background[T]) NextBatch(now time.Time, g BatchLimits[T]) (out Batch[T], found bool) {
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
		b.appendToBatch(&out, first, next)
	}
	for small && len(first.waiting) == 0 && len(out.Items) < g.Items {
		next := b.first(func(t *tenant[T]) bool { return g.fits(t, g.Items-len(out.Items), g.Total-size) })
		if next == nil {
			break
		}
		for len(next.waiting) > 0 {
			n := g.Size(next.waiting[0])
			size += n
			b.appendToBatch(&out, next, n)
		}
	}
	b.running++
	return out, true
}

// fits reports whether all waiting items of a tenant are small and fit into the rest of a batch,
// which is items items with the size total.
func (g BatchLimits[T]) fits(t *tenant[T], items int, total int64) bool {
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

// appendToBatch moves a tenant's oldest item to a batch and charges it.
func (b *Background[T]) appendToBatch(out *Batch[T], t *tenant[T], size int64) {
	out.Items, out.tenants = append(out.Items, b.take(t)), append(out.tenants, t.id)
	b.Charge(t.id, time.Duration(size))
}

// EndBatch records that a batch has ended.
func (b *Background[T]) EndBatch(batch Batch[T], now time.Time) {
	for _, id := range batch.tenants {
		b.Queue.End(id, now)
	}
	b.running--
}

// Free reports whether another item or batch may run.
func (b *Background[T]) Free(now time.Time) bool { return b.free(now) }
