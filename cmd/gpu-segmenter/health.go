package main

// This file serves /healthz, /readyz and /metrics.

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/sluice-rag/sluice/internal/lifecycle"
)

// healthService listens on address. The process is healthy when it answers, ready when ready returns nil.
func healthService(address string, metrics http.Handler, ready func() error) lifecycle.Service {
	return lifecycle.NewFunc("health", func(ctx context.Context) (lifecycle.Run, error) {
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
		if err != nil {
			return lifecycle.Run{}, fmt.Errorf("listen on %s (SLUICE_HEALTH_LISTEN): %w", address, err)
		}
		mux := http.NewServeMux()
		mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
		mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
			if err := ready(); err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
				return
			}
			fmt.Fprintln(w, "ready")
		})
		mux.Handle("GET /metrics", metrics)
		server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
		done := make(chan struct{})
		var served error
		go func() {
			defer close(done)
			if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
				served = err
			}
		}()
		return lifecycle.Run{Done: done, Err: func() error { return served }, Stop: func(ctx context.Context) error {
			if err := server.Shutdown(ctx); err != nil {
				return errors.Join(err, server.Close())
			}
			return nil
		}}, nil
	})
}
