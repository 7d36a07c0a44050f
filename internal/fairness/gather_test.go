package fairness

// This file tests how items of several tenants are grouped into batches.

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
)

// sized is an item of a tenant with a size.
type sized struct {
	tenant uuid.UUID
	size   int64
}

// gathering is the tests' Gathering: a batch has five items or a size of 500, those of the first
// tenant three or 300, and small is up to 50.
var gathering = BatchLimits[*sized]{Size: func(s *sized) int64 { return s.size }, Items: 5, Total: 500, Share: 3, ShareTotal: 300, Small: 50}

// waitingItems returns background work with these items waiting.
func waitingItems(most int, items ...sized) *Background[*sized] {
	b := NewBackground[*sized](NewForeground(time.Second), most, most)
	for i := range items {
		b.Put(items[i].tenant, &items[i], time.Unix(100, 0))
	}
	return b
}

// gathers checks the next batch.
func gathers(t *testing.T, b *Background[*sized], want ...sized) Batch[*sized] {
	t.Helper()
	batch, found := b.NextBatch(time.Unix(100, 0), gathering)
	var got []sized
	for _, item := range batch.Items {
		got = append(got, *item)
	}
	if found != (len(want) > 0) || !slices.Equal(got, want) {
		t.Fatalf("gathered %v, want %v", got, want)
	}
	return batch
}

func some(tenant uuid.UUID, size int64, n int) []sized {
	out := make([]sized, n)
	for i := range out {
		out[i] = sized{tenant, size}
	}
	return out
}

func TestATenantThatIsAloneFillsBatches(t *testing.T) {
	b := waitingItems(2, append(some(loud, 10, 6), sized{loud, 490}, sized{loud, 900})...)
	gathers(t, b, some(loud, 10, 5)...)
	batch := gathers(t, b, sized{loud, 10}, sized{loud, 490})
	gathers(t, b) // two batches run
	b.EndBatch(batch, time.Unix(100, 0))
	gathers(t, b, sized{loud, 900}) // larger than a batch, so by itself
}

func TestTenantsWithLittleShareABatch(t *testing.T) {
	quiet, other, third := uuid.New(), uuid.New(), uuid.New()
	b := waitingItems(9, slices.Concat(some(quiet, 10, 2), some(loud, 10, 7), some(other, 60, 1), some(third, 50, 2))...)
	gathers(t, b, slices.Concat(some(quiet, 10, 2), some(third, 50, 2))...) // large items get no company, and neither do tenants with many items
	gathers(t, b, some(loud, 10, 3)...)                                     // its share, while others wait
	gathers(t, b, some(other, 60, 1)...)
	gathers(t, b, some(loud, 10, 4)...)
}

// TestLargeBacklogsDoNotDelaySmallOnes: a tenant with a hundred times as many items is not
// served first, whenever they came.
func TestLargeBacklogsDoNotDelaySmallOnes(t *testing.T) {
	quiet := uuid.New()
	b := waitingItems(1, some(loud, 10, 200)...)
	batch := gathers(t, b, some(loud, 10, 5)...)
	b.Put(quiet, &sized{quiet, 10}, time.Unix(100, 0))
	b.Put(quiet, &sized{quiet, 10}, time.Unix(100, 0))
	b.EndBatch(batch, time.Unix(100, 0))
	ahead := 0
	for {
		batch, found := b.NextBatch(time.Unix(100, 0), gathering)
		if !found {
			t.Fatal("nothing waits")
		}
		b.EndBatch(batch, time.Unix(100, 0))
		if batch.Items[0].tenant == quiet {
			break
		}
		ahead += len(batch.Items)
	}
	if ahead > gathering.Share {
		t.Errorf("%d items of the other went ahead, want a share of %d at most", ahead, gathering.Share)
	}
}

// TestTenantsWithMuchAlternateBySize: of two tenants that both have many items, each gets half, by
// size.
func TestTenantsWithMuchAlternateBySize(t *testing.T) {
	slight := uuid.New()
	b := waitingItems(1, slices.Concat(some(loud, 100, 100), some(slight, 25, 100))...)
	sum := map[uuid.UUID]int64{}
	for range 20 {
		batch, found := b.NextBatch(time.Unix(100, 0), gathering)
		if !found {
			t.Fatal("nothing waits")
		}
		for _, item := range batch.Items {
			sum[item.tenant] += item.size
		}
		b.EndBatch(batch, time.Unix(100, 0))
	}
	if a, b := sum[loud], sum[slight]; a > b+300 || b > a+300 {
		t.Errorf("one got %d, the other %d", a, b)
	}
}
