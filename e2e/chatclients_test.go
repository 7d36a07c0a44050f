//go:build chat

package e2e

// This file is `make test-chat`: OpenAI's clients for Go, JavaScript and Python use a whole `sluice
// up`.

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/sluice-rag/sluice/internal/local"
	"github.com/sluice-rag/sluice/internal/local/localtest"
)

func TestChatClients(t *testing.T) {
	tools, err := local.ToolsDir()
	if err != nil {
		t.Fatal(err)
	}
	clients := filepath.Join(tools, "chat-1")
	if _, err := os.Stat(filepath.Join(clients, "done")); err != nil {
		t.Fatalf("OpenAI's clients are not there, `make test-chat` gets them: %v", err)
	}
	p := build(t)
	s := p.up(t, localtest.Dir(t))
	s.sluice(t, "ingest", write(t, marrowick), "-c", "marrowick", "--wait").ok(t)
	t.Run("Go", func(t *testing.T) { testGoClient(t, s) })
	t.Run("JavaScript", func(t *testing.T) {
		useClient(t, s, []string{"CHAT_CLIENTS=" + clients}, "node", filepath.Join(p.repository, "tools", "chat", "client.mjs"))
	})
	t.Run("Python", func(t *testing.T) {
		useClient(t, s, nil, filepath.Join(clients, "python", "bin", "python"), filepath.Join(p.repository, "tools", "chat", "client.py"))
	})
	s.stop(t)
}
