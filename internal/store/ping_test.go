package store_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/store"
)

// TestPingIsAnsweredDuringWork: a program whose connections are all in use is ready, and its ping
// succeeds.
func TestPingIsAnsweredDuringWork(t *testing.T) {
	f := setUp(t, store.Options{MaxConns: 2})
	done, all := make(chan struct{}), make(chan struct{}, 2)
	ended := make(chan error, 2)
	for range 2 {
		go func() {
			ended <- f.AsTenant(t.Context(), f.a.Tenant, func(ctx context.Context, tx pgx.Tx) error {
				all <- struct{}{}
				<-done
				return nil
			})
		}()
	}
	<-all
	<-all
	err := f.Ping(t.Context())
	close(done)
	if err != nil {
		t.Errorf("while all connections are at work: %v", err)
	}
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}
