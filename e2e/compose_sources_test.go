//go:build compose

package e2e

// This file follows a folder with the compose file's source-worker. No other container needs it.

import (
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/sluice-rag/sluice/internal/waittest"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

// follow starts source-worker with its profile and an override file that mounts a folder, and adds
// a source for this folder.
func (c *composition) follow(t *testing.T) {
	t.Helper()
	documents := filepath.Join(c.repository, "examples", "documents")
	override := filepath.Join(t.TempDir(), "override.yml")
	if err := os.WriteFile(override, fmt.Appendf(nil, "services: {source-worker: {volumes: ['%s:/documents:ro']}}\n", documents), 0o600); err != nil {
		t.Fatal(err)
	}
	c.compose(t, "-f", "docker-compose.yml", "-f", override, "--profile", "sources", "up", "-d", "--no-build", "--no-recreate", "source-worker")
	c.server.call(t, http.MethodPost, "/v1/collections", api.NewCollection{Name: "followed"}).want(t, http.StatusCreated)
	c.server.sluice(t, "sources", "add", "examples", "folder", "--collection", "followed", "--set", "path=/documents").ok(t)
	files := int64(0)
	if err := filepath.WalkDir(documents, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			files++
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	waittest.Until(t, func() string {
		if found := counts(t, c.server, "followed"); found[schema.StateReady] != files || unfinished(found) != 0 {
			return fmt.Sprintf("of %d files of a folder the documents are %v", files, found)
		}
		return ""
	})
	t.Logf("source-worker brought %d files of a folder", files)
}
