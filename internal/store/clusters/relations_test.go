package clusters

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"unicode"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/cluster"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/storetest"
)

// TestFoldersOfTheStore: the store takes an external id to be in the same folder as Go does.
func TestFoldersOfTheStore(t *testing.T) {
	ids := []string{"", "a", "a/b", "a/b/c", "/a", "a/", "https://x.org", "https://x.org/", "https://x.org/a/b", "https://x.org/a?b=/c/d",
		"a?b/c", "x/y://z", "x://y://z", "a/b\n/c", "é/ü", "a//b", "?", "/"}
	_, owner := storetest.Open(t, store.Options{})
	rows, err := owner.Query(t.Context(),
		`SELECT `+folderOfSQL+` FROM unnest($1::text[]) WITH ORDINALITY AS d(external_id, n) ORDER BY n`, ids)
	if err != nil {
		t.Fatal(err)
	}
	got, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	for i, id := range ids {
		if want := cluster.FolderOf(id); got[i] != want {
			t.Errorf("%q is in %q, for the store in %q", id, want, got[i])
		}
	}
}

// TestTheNextDocumentOfAFolderIsFound: for each document the one before and the one after it,
// however many documents of subfolders come between, up to maxNeighbours; no more are read.
func TestTheNextDocumentOfAFolderIsFound(t *testing.T) {
	c := storetest.Filled(t)
	as := func(ctx context.Context, do func(context.Context, pgx.Tx) error) error {
		return c.Store.AsTenant(ctx, c.Tenant, func(ctx context.Context, tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, lookUpSQL); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, sortsSQL, "off"); err != nil {
				return err
			}
			return do(ctx, tx)
		})
	}
	if err := as(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
		// Documents 1 to 99, and behind 50 some in a subfolder.
		_, err := tx.Exec(ctx, `UPDATE documents SET external_id = CASE
			WHEN external_id::int < 100 THEN 'f/' || lpad(external_id, 3, '0')
			WHEN external_id::int < 106 THEN 'f/050/' || external_id ELSE external_id END
			WHERE tenant_id = $1`, c.Tenant)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	neighbours := func(names ...string) []string {
		var out []string
		if err := as(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
			out = nil
			rows, err := tx.Query(ctx, neighboursSQL, c.Tenant, c.ID, names, slices.Repeat([]string{"f/"}, len(names)),
				slices.Repeat([]string{"f/" + string(unicode.MaxRune)}, len(names)), maxNeighbours)
			if err != nil {
				return err
			}
			var of, name string
			_, err = pgx.ForEachRow(rows, []any{&of, &name, nil}, func() error {
				out = append(out, of+" "+name)
				return nil
			})
			return err
		}); err != nil {
			t.Fatal(err)
		}
		slices.Sort(out)
		return out
	}
	if got, want := neighbours("f/001", "f/050", "f/051", "f/099"), []string{
		"f/001 f/002", "f/050 f/049", "f/050 f/051", "f/051 f/050", "f/051 f/052", "f/099 f/098",
	}; !slices.Equal(got, want) {
		t.Errorf("found %v, want %v", got, want)
	}
	const some = 40
	var names []string
	for i := range some {
		names = append(names, fmt.Sprintf("f/%03d", 10+i))
	}
	for _, statistics := range []bool{false, true} {
		if statistics {
			if _, err := c.Owner.Exec(t.Context(), `ANALYZE documents, sections`); err != nil {
				t.Fatal(err)
			}
		}
		buffers, rows := storetest.Reads(t, as, neighboursSQL, c.Tenant, c.ID, names, slices.Repeat([]string{"f/"}, some),
			slices.Repeat([]string{"f/" + string(unicode.MaxRune)}, some), maxNeighbours)
		t.Logf("statistics %t: %d buffers for %d documents", statistics, buffers, rows)
		if rows != 2*some || buffers > 10*rows {
			t.Errorf("statistics %t: %d neighbours of %d documents take %d buffers", statistics, rows, some, buffers)
		}
	}
}
