package secret

import (
	"testing"

	"github.com/sluice-rag/sluice/internal/local/localtest"
)

func TestMain(m *testing.M) { localtest.Main(m, localtest.Need{}) }
