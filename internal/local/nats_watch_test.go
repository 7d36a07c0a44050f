package local

import (
	"context"
	"log/slog"
	"net"
	"strconv"
	"testing"
)

// TestAServerStartedAgainEndsWithItsWatcher: stopping NATS during a restart of its server leaves no
// server behind.
func TestAServerStartedAgainEndsWithItsWatcher(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n, err := NewNATS(NATSOptions{Dir: t.TempDir(), Log: slog.New(troubleHandler{slog.DiscardHandler, cancel})})
	if err != nil {
		t.Fatal(err)
	}
	srv, err := n.serve(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := srv.DisableJetStream(); err != nil {
		t.Fatal(err)
	}
	if err := n.watch(ctx, srv); err != nil && ctx.Err() == nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", net.JoinHostPort(Host, strconv.Itoa(n.port)))
	if err == nil {
		_ = conn.Close()
		t.Error("a server still listens")
	}
}

// troubleHandler calls onTrouble when the server's trouble is logged.
type troubleHandler struct {
	slog.Handler
	onTrouble func()
}

func (h troubleHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelError
}

func (h troubleHandler) Handle(context.Context, slog.Record) error {
	h.onTrouble()
	return nil
}
