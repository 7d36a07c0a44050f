package apiserver_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/waittest"
	"github.com/sluice-rag/sluice/schema"
)

// Two changes of a source at once change what each names, and nothing else.
func TestAChangeOfASourceKeepsAnotherOne(t *testing.T) {
	w := newWorld(t)
	path := "/v1/sources/" + w.source("docs")
	watching, err := pgx.Connect(t.Context(), w.database)
	if err != nil {
		t.Fatal(err)
	}
	defer watching.Close(context.Background()) //nolint:errcheck // a test's
	second := make(chan response, 1)
	err = w.store.AsTenant(t.Context(), w.admin.Tenant, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `UPDATE sources SET labels = '{board}', settings = '{"path": "/srv/board"}'`); err != nil {
			return err
		}
		go func() { second <- w.do(http.MethodPatch, path, strings.NewReader(`{"every": 30}`), "") }()
		waittest.Until(t, func() string {
			waits := false
			err := watching.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')`).Scan(&waits)
			if err != nil || !waits {
				return fmt.Sprintf("the second change doesn't wait for the first: %v", err)
			}
			return ""
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var s schema.Source
	waittest.Receive(t, second, "the second change").want(http.StatusOK, &s)
	if got := fmt.Sprint(s.Labels, s.Settings, s.Every); got != "[board] map[path:/srv/board] 30" {
		t.Errorf("the source has %s", got)
	}
}
