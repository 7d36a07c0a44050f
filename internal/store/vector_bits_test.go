package store_test

import (
	"context"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/storetest"
)

// TestVectorsKeepTheirBits: what Postgres returns for every half precision number that it stores is
// that number, also when a shorter row is read into the place of a longer one.
func TestVectorsKeepTheirBits(t *testing.T) {
	s, _ := storetest.Open(t, store.Options{})
	var all store.HalfRow
	for bits := range 1 << 16 {
		if bits>>10&31 != 31 { // infinities and NaN are not stored
			all = append(all, uint16(bits))
		}
	}
	err := s.AsSystem(t.Context(), func(ctx context.Context, tx pgx.Tx) error {
		var row store.HalfRow
		for want := range slices.Chunk(all, 15_000) {
			if err := tx.QueryRow(ctx, `SELECT $1::halfvec`, want).Scan(&row); err != nil {
				return err
			}
			if !slices.Equal(row, want) {
				t.Errorf("%d numbers from %04x on came back as %d others", len(want), want[0], len(row))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
