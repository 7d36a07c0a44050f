package health

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/lifecycle"
)

// logged returns the log until the end of the test.
func logged(t *testing.T) *strings.Builder {
	t.Helper()
	var log strings.Builder
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	t.Cleanup(func() { slog.SetDefault(before) })
	return &log
}

// TestReadinessNamesPartsAlone: the reply says which part is missing, and only the log says why.
func TestReadinessNamesPartsAlone(t *testing.T) {
	var lc net.ListenConfig
	closed, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := closed.Addr().String()
	_ = closed.Close()
	dial := func(ctx context.Context) error {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "tcp", address)
		if err == nil {
			_ = conn.Close()
		}
		return err
	}
	log := logged(t)
	service := lifecycle.NewResource("worker", nil, nil)
	if err := service.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	err = ready(t.Context(), service, Checks{"nats": dial, "database": dial, "temporal": func(context.Context) error { return nil }})
	if err == nil || err.Error() != "does not answer: database, nats" {
		t.Errorf("the reply is %v", err)
	}
	if strings.Count(log.String(), address) != 2 {
		t.Errorf("the log has %s", log.String())
	}
	if err := service.Stop(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
}

func TestMetricsHaveAServerOfTheirOwn(t *testing.T) {
	log, told := logged(t), ""
	server := Metrics("127.0.0.1:0", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "sluice_up 1") }),
		func(at net.Addr) { told = at.String() })
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	_, address, _ := strings.Cut(strings.TrimSpace(log.String()), "address=")
	if told != address {
		t.Errorf("told that it listens on %q, not on %q", told, address)
	}
	for path, want := range map[string]int{"/metrics": http.StatusOK, "/readyz": http.StatusNotFound} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("%s gives %d, want %d", path, response.StatusCode, want)
		}
	}
	if err := server.Stop(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	off := Metrics(Off, http.NotFoundHandler(), nil)
	if err := off.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := off.Stop(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
}
