//go:build compose || kube

package e2e

// This file has what the tests of the compose file and of the chart share.

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

// containersScript runs a script of tools/containers, shows its standard error, and logs and
// returns its standard output.
func containersScript(t *testing.T, repository string, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(filepath.Join(repository, "tools", "containers", name), args...) // without the test's context, because cleanups run it too
	cmd.Env = env                                                                        // nil: this process's environment
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("tools/containers/%s %s: %v\n%s", name, strings.Join(args, " "), err, out.Bytes())
	}
	t.Logf("tools/containers/%s\n%s", name, out.Bytes())
	return out.String()
}

// ingestAndAsk ingests the examples and asks a question about them, as the documentation does after
// an installation.
func ingestAndAsk(t *testing.T, repository string, s *server) {
	t.Helper()
	began := time.Now()
	s.sluice(t, "ingest", filepath.Join(repository, "examples", "documents"), "--collection", "docs", "--wait").ok(t)
	answer := s.sluice(t, "ask", "How long is the notice period?", "--collection", "docs").ok(t)
	t.Logf("the examples were ingested and a question answered in %s:\n%s", time.Since(began).Round(time.Second), answer.out) //house:clock it is told
}

// without runs a function during which the API server is unavailable for a while.
func (l *load) without(do func()) {
	set := func(away bool) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.away = away
	}
	set(true)
	defer set(false)
	do()
}

// sameContent checks that each document has the bytes that were sent, and one version.
func sameContent(t *testing.T, s *server, articles []article) {
	t.Helper()
	have := map[string]schema.Document{}
	for cursor := ""; ; {
		page := as[api.Page[schema.Document]](t, s.call(t, http.MethodGet, "/v1/collections/"+crowded+"/documents?limit=200&cursor="+url.QueryEscape(cursor), nil).want(t, http.StatusOK))
		for _, d := range page.Items {
			if _, twice := have[d.ExternalID]; twice {
				t.Errorf("document %s occurs twice", d.ExternalID)
			}
			have[d.ExternalID] = d
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	for _, a := range articles {
		d, ok := have[a.ID]
		if !ok {
			t.Errorf("document %s is not there", a.ID)
			continue
		}
		got := sha256.Sum256(s.call(t, http.MethodGet, "/v1/documents/"+d.ID.String()+"/content", nil).want(t, http.StatusOK).body)
		want := sha256.Sum256([]byte(a.Text))
		if got != want {
			t.Errorf("document %s has the bytes %s, want %s", a.ID, hex.EncodeToString(got[:]), hex.EncodeToString(want[:]))
		}
	}
	if len(have) != len(articles) {
		t.Errorf("%d documents, want %d", len(have), len(articles))
	}
}
