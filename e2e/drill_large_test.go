//go:build drill

package e2e

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sluice-rag/sluice/internal/local/localtest"
)

// TestLargeDrill is `make drill`. DRILL_DOCS names the folder.
func TestLargeDrill(t *testing.T) {
	p := build(t)
	folder := os.Getenv("DRILL_DOCS")
	if folder == "" {
		folder = filepath.Join(p.repository, "examples")
	}
	testLargeDrill(t, p, folder)
}

// testLargeDrill backs up the documents of a folder, restores them, and prints how long that takes.
func testLargeDrill(t *testing.T, p programs, folder string) {
	s := p.up(t, localtest.Dir(t), impatient...)
	took := func(what string, f func()) {
		began := time.Now()
		f()
		t.Logf("%-28s %8.1f s", what, time.Since(began).Seconds())
	}
	took("ingest "+folder, func() { s.sluice(t, "ingest", folder, "-c", "drill", "--wait") })
	asked := drilled{"drill", []string{"What is the notice period?", "Who is responsible?", "What does it cost?"}}
	before, originals := asked.ask(t, s), hashes(t, s, "drill")
	dir := filepath.Join(t.TempDir(), "backup")
	took("backup", func() { t.Log(s.sluice(t, "backup", dir, "--data", s.data).ok(t).out) })
	took("verify", func() { t.Log(s.sluice(t, "backup", "verify", dir).ok(t).out) })
	s.stop(t)
	data := localtest.Dir(t)
	took("restore", func() { t.Log(s.run(t, nil, "sluice", "restore", dir, "--data", data).ok(t).out) })
	var back *server
	took("start on it", func() { back = p.up(t, data, impatient...) })
	alike(t, "answers", before, asked.ask(t, back))
	alike(t, "original bytes", originals, hashes(t, back, "drill"))
	back.checkStored(t)
	back.stop(t)
}
