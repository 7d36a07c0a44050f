package curate

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/corpus"
	"github.com/sluice-rag/sluice/internal/store/storetest"
	"github.com/sluice-rag/sluice/schema/wire"
)

// counted counts the calls of a real store by kind.
type counted struct {
	*corpus.CorpusStore
	everything, changes int
}

func (c *counted) Uncurated(ctx context.Context, after uuid.UUID, age, keep time.Duration, limit int) ([]wire.Curation, error) {
	c.everything++
	return c.CorpusStore.Uncurated(ctx, after, age, keep, limit)
}

func (c *counted) UncuratedChanges(ctx context.Context, after uuid.UUID, age, keep time.Duration, limit int) ([]wire.Curation, error) {
	c.changes++
	return c.CorpusStore.UncuratedChanges(ctx, after, age, keep, limit)
}

// noEncoder stands for a second encoder without servers.
type noEncoder struct{}

func (noEncoder) Begin(context.Context) error { return nil }

// begun records the curations to be started, in place of Temporal.
type begun []wire.Curation

func (b *begun) Curate(_ context.Context, list []wire.Curation) error {
	*b = append(*b, list...)
	return nil
}
func (b *begun) Rebuild(context.Context, wire.Rebuild) error { return fmt.Errorf("a rebuild begins") }
func (b *begun) Reparse(context.Context, wire.Reparse) error { return fmt.Errorf("a run begins") }

// TestSegmentsAreCountedNowAndThen: while nothing changes, one pass in countingPasses counts the
// segments of all collections; every pass finds what changed.
func TestSegmentsAreCountedNowAndThen(t *testing.T) {
	db, owner := storetest.Open(t, store.Options{})
	c := storetest.Corpus{Store: db, Owner: owner, Tenant: uuid.New(), ID: uuid.New()}
	in := func(sql string, args ...any) {
		t.Helper()
		if err := db.AsTenant(t.Context(), c.Tenant, func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, sql, args...)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.AsSystem(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO tenants (id, name) VALUES ($1, 't')`, c.Tenant)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	in(`INSERT INTO collections (tenant_id, id, name) VALUES ($1, $2, 'c')`, c.Tenant, c.ID)
	found := &counted{CorpusStore: corpus.New(db)}
	var workflows begun
	r := &reconciler{found: found, second: noEncoder{}, workflows: &workflows,
		options: ReconcilerOptions{Age: -time.Minute, Keep: time.Hour}, begun: map[uuid.UUID]pause{}}
	round := func() {
		t.Helper()
		if err := r.round(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 * countingPasses {
		round()
	}
	if found.everything != 2 || found.changes != 2*countingPasses-2 || len(workflows) > 0 {
		t.Errorf("in %d rounds segments were counted %d times, changes looked for %d times, %d curations begun",
			2*countingPasses, found.everything, found.changes, len(workflows))
	}
	round() // this pass counts segments
	in(`INSERT INTO reclusterings (tenant_id, collection_id) VALUES ($1, $2)`, c.Tenant, c.ID)
	round()
	if found.everything != 3 || len(workflows) != 1 || workflows[0].Collection != c.ID {
		t.Errorf("segments were counted %d times; a collection that changed: %v begun", found.everything, workflows)
	}
}
