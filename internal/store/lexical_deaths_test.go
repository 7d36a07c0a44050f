package store_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/lexical/search"
	"github.com/sluice-rag/sluice/internal/store"
)

// TestLexicalSendsNewDeathsAlone: a process that knows the dead entries of a collection gets only
// those that died since, and all of them when some that it knows were removed, or one was committed
// late.
func TestLexicalSendsNewDeathsAlone(t *testing.T) {
	f := setUp(t, store.Options{})
	var list []*written
	for i := range 12 {
		w := &written{name: fmt.Sprint(i), body: fmt.Sprintf("heron number%d", i)}
		f.write(t, f.a, f.collection, w)
		list = append(list, w)
	}
	s := &counted{Storage: f.SearchStore}
	x := search.NewIndex(s, 64<<20)
	sent := func(what string, want int64) {
		t.Helper()
		before := s.entries.Load()
		expect(t, x, f.a, f.collection, "heron", list...)
		if got := s.entries.Load() - before; got != want {
			t.Errorf("%s: %d dead entries were sent, not %d", what, got, want)
		}
	}
	markDead := func(n int) {
		t.Helper()
		for _, w := range list[:n] {
			if err := f.DeleteDocument(t.Context(), f.a, w.id); err != nil {
				t.Fatal(err)
			}
		}
		list = list[n:]
	}
	sent("none is dead", 0)
	markDead(3)
	sent("three have died", 3)
	markDead(2)
	sent("two more", 2)
	sent("none since", 0)

	late := list[0] // numbered before another death, and committed after that was seen
	err := f.AsTenant(t.Context(), f.a.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `UPDATE lexical_entries SET dead = true WHERE version_id = $1`, late.version); err != nil {
			return err
		}
		list = list[1:]
		markDead(1)
		list = append(list, late)
		sent("one, numbered after one that is not committed", 1)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	list = list[:len(list)-1]
	sent("all, for one of a lower number came", 7)

	load := search.Load{Tenant: f.a.Tenant, Collection: f.collection}
	all, err := f.LoadLexical(t.Context(), load)
	if err != nil || len(all.Entries) != 7 {
		t.Fatalf("%d are dead, %v", len(all.Entries), err)
	}
	execAs(t, f, f.a, `DELETE FROM lexical_entries WHERE dead AND died < (SELECT max(died) FROM lexical_entries)`)
	load.Dead = all.Dead
	if rest, err := f.LoadLexical(t.Context(), load); err != nil || rest.After || len(rest.Entries) != 1 {
		t.Errorf("some are gone: %d were sent, as those after what is known: %t, %v", len(rest.Entries), rest.After, err)
	}
}
