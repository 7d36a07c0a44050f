package health

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/lifecycle"
)

// TestReadinessNamesPartsAlone: who asks hears which part is missing, the log why.
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
	var log strings.Builder
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	t.Cleanup(func() { slog.SetDefault(before) })
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
