// Package health serves a worker's state: /healthz answers while it runs, /readyz says whether it
// can work, and /metrics has its metrics. Check asks a running worker.
package health

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/sluice-rag/sluice/cmd/internal/httpserver"
	"github.com/sluice-rag/sluice/internal/lifecycle"
)

// Off as an address means that there is no server.
const Off = "off"

// readyLimit bounds the checks of /readyz.
const readyLimit = 5 * time.Second

// Checks are the checks that must succeed for a worker to be ready, by name.
type Checks map[string]func(ctx context.Context) error

// New returns the server. It listens when Start returns. service counts as ready only while it
// runs.
func New(listen string, service lifecycle.Service, checks Checks, metrics http.Handler) lifecycle.Service {
	if listen == Off {
		return lifecycle.NewResource("health", nil, nil)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "ok")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), readyLimit)
		defer cancel()
		if err := ready(ctx, service, checks); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ready")
	})
	mux.Handle("GET /metrics", metrics)
	return serve("health", "SLUICE_HEALTH_LISTEN", listen, mux, nil)
}

// Metrics returns a server of /metrics alone, for a program that has its own health checks. If
// listening is not nil, it is called with the address before Start returns.
func Metrics(listen string, metrics http.Handler, listening func(net.Addr)) lifecycle.Service {
	if listen == Off {
		return lifecycle.NewResource("metrics", nil, nil)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metrics)
	return serve("metrics", "SLUICE_METRICS_LISTEN", listen, mux, listening)
}

func serve(name, setting, listen string, handler http.Handler, listening func(net.Addr)) lifecycle.Service {
	return lifecycle.NewFunc(name, func(ctx context.Context) (lifecycle.Run, error) {
		var lc net.ListenConfig
		listener, err := lc.Listen(ctx, "tcp", listen)
		if err != nil {
			return lifecycle.Run{}, fmt.Errorf("listen on %s: %w", setting, err)
		}
		if listening != nil {
			listening(listener.Addr())
		}
		server := httpserver.New(handler, httpserver.Limits{Header: readyLimit})
		done := make(chan struct{})
		var failure error
		go func() {
			defer close(done)
			if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
				failure = err
			}
		}()
		slog.InfoContext(ctx, name+" is served", "address", listener.Addr().String())
		return lifecycle.Run{Done: done, Err: func() error { return failure }, Stop: func(ctx context.Context) error {
			err := server.Shutdown(ctx)
			if err != nil {
				err = errors.Join(err, server.Close())
			}
			<-done
			return err
		}}, nil
	})
}

// ready returns an error that names the checks that failed. The endpoint is open to everyone, so
// the details are only logged.
func ready(ctx context.Context, service lifecycle.Service, checks Checks) error {
	select {
	case <-service.Done():
		return errors.New("not running")
	default:
	}
	var missing []string
	for name, check := range checks {
		if err := check(ctx); err != nil {
			slog.WarnContext(ctx, "not ready", "part", name, "error", err)
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	slices.Sort(missing)
	return errors.New("does not answer: " + strings.Join(missing, ", "))
}

// Check asks the worker that listens on an address of this machine whether it is ready.
func Check(ctx context.Context, listen string) error {
	if listen == Off {
		return errors.New("the worker serves no health checks: SLUICE_HEALTH_LISTEN is off")
	}
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return fmt.Errorf("SLUICE_HEALTH_LISTEN %q: %w", listen, err)
	}
	if host == "" || host == "0.0.0.0" || host == "::" {
		host = "127.0.0.1"
	}
	ctx, cancel := context.WithTimeout(ctx, 2*readyLimit)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, port)+"/readyz", nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("ask the worker: %w", err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 4096))
	if err != nil {
		return fmt.Errorf("ask the worker: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("not ready: %s", strings.TrimSpace(string(body)))
	}
	return nil
}
