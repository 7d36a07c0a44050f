package curate

import (
	"testing"

	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/internal/store"
)

func TestMain(m *testing.M) {
	localtest.Main(m, localtest.Need{Postgres: true, Migrate: store.Migrate})
}
