package apiserver_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

// TestRequestsEndWithTheirStatements: a request whose statement takes too long
// is answered, with 503 and when to come again.
func TestRequestsEndWithTheirStatements(t *testing.T) {
	w := newWorldOf(t, store.Options{Lane: store.Lane(2 * time.Second)})
	var made schema.Collection
	w.post("/v1/collections", api.NewCollection{Name: "papers"}, "").want(http.StatusCreated, &made)
	err := w.store.AsTenant(t.Context(), w.admin.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT FROM collections WHERE id = $1 FOR UPDATE`, made.ID); err != nil {
			return err
		}
		unavailable(t, "a write", w.do(http.MethodPatch, "/v1/collections/papers", strings.NewReader(`{"description": "new"}`), ""))
		if _, err := tx.Exec(ctx, `LOCK TABLE documents IN ACCESS EXCLUSIVE MODE`); err != nil {
			return err
		}
		unavailable(t, "a read", w.do(http.MethodGet, "/v1/collections/papers/documents", nil, ""))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	w.do(http.MethodPatch, "/v1/collections/papers", strings.NewReader(`{"description": "new"}`), "").want(http.StatusOK, nil)
}

func unavailable(t *testing.T, what string, got response) {
	t.Helper()
	if got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" {
		t.Errorf("%s got %d, Retry-After %q: %s", what, got.status, got.header.Get("Retry-After"), got.body)
	}
}
