package local_test

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/sluice-rag/sluice/internal/local"
	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/internal/waittest"
)

func TestARunningPostgresIsFound(t *testing.T) {
	dir := filepath.Join(localtest.Dir(t), "postgres")
	if _, err := local.RunningPostgresURL(dir); !errors.Is(err, local.ErrMissing) {
		t.Errorf("before its start: %v", err)
	}
	pg, err := local.StartPostgres(waittest.Context(t), local.PostgresOptions{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := local.RunningPostgresURL(dir); err != nil || got != pg.URL() {
		t.Errorf("it is at %s, and found at %s (%v)", pg.URL(), got, err)
	}
	if err := pg.Stop(waittest.Context(t)); err != nil {
		t.Fatal(err)
	}
	if _, err := local.RunningPostgresURL(dir); !errors.Is(err, local.ErrMissing) {
		t.Errorf("after its end: %v", err)
	}
}
