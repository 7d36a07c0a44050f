package local

import (
	"fmt"
	"slices"
	"testing"

	"github.com/sluice-rag/sluice/internal/memory"
)

func TestPostgresBuffers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		opts PostgresOptions
		want int64
	}{
		{"a quarter of the memory", PostgresOptions{}, min(max(memory.Limit()/4, 128<<20), 8<<30)},
		{"a throwaway server", PostgresOptions{Throwaway: true}, 128 << 20},
		{"as set", PostgresOptions{Buffers: 300 << 20}, 300 << 20},
	} {
		p := &Postgres{opts: c.opts}
		want := fmt.Sprintf("shared_buffers=%dkB", c.want>>10)
		if got := p.serverSettings(5432); !slices.Contains(got, want) {
			t.Errorf("%s: %q has no %s", c.name, got, want)
		}
	}
}
