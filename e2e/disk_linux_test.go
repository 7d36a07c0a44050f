package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/internal/waittest"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

// testFullDisk fills the disk of a server's data completely while documents are in progress.
// Uploads are refused with the reason. When there is space again, the server continues by itself,
// and nothing is lost.
func testFullDisk(t *testing.T, p programs) {
	data := filepath.Join(localtest.Disk(t, 1<<30), "sluice")
	s := p.up(t, data, impatient...)
	s.sluice(t, "ingest", writeCrowd(t, "before"), "-c", "before", "--wait").ok(t)
	model := s.child(t, "gpu-segmenter")
	freeze(t, model)
	s.sluice(t, "ingest", writeCrowd(t, "during"), "-c", "during").ok(t)
	awaitMiddle(t, s, "during")
	s.call(t, http.MethodPost, "/v1/collections", api.NewCollection{Name: "late"}).want(t, http.StatusCreated)
	superuser := connect(t, s.superuserURL(t))
	makeRoomInLog(t, superuser)
	filler := filepath.Join(filepath.Dir(data), "filler")
	localtest.Fill(t, filler)
	upload := func() reply {
		return s.call(t, http.MethodPost, "/v1/collections/late/documents",
			api.Upload{Documents: []api.NewDocument{{ExternalID: "late.md", Text: "The late parcel has the number 99."}}}, "Idempotency-Key", "late")
	}
	waittest.Until(t, func() string {
		switch r := upload(); r.status {
		case http.StatusInsufficientStorage:
			if !strings.Contains(string(r.body), "SLUICE_KEEP_FREE") {
				t.Errorf("the refusal does not say what to do: %s", r.body)
			}
			return ""
		case http.StatusServiceUnavailable:
			return "the server is not there"
		default:
			t.Fatalf("on a full disk an upload is %d %s", r.status, r.body)
			return ""
		}
	})
	thaw(t, model)
	if found := search(t, s, "before", "What is the number of parcel before-007?"); len(found) == 0 {
		t.Error("on a full disk nothing is found")
	}
	// Postgres ends when a checkpoint, which it makes every five minutes, finds no space.
	if _, err := superuser.Exec(t.Context(), "CHECKPOINT"); err == nil {
		t.Error("there is room for a checkpoint on a full disk")
	}
	_ = superuser.Close(t.Context())
	waittest.Until(t, func() string {
		localtest.Fill(t, filler) // fill the space that the other processes freed
		if r := s.call(t, http.MethodGet, "/readyz", nil); r.status == http.StatusOK {
			return fmt.Sprintf("with Postgres gone the server says that it is ready: %s", r.body)
		}
		return ""
	})
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	waittest.Until(t, func() string {
		if r := upload(); r.status != http.StatusOK {
			return fmt.Sprintf("with room again an upload is %d %s", r.status, r.body)
		}
		return ""
	})
	waittest.Until(t, func() string {
		if r := s.call(t, http.MethodGet, "/readyz", nil); r.status != http.StatusOK {
			return fmt.Sprintf("with room again the server is not ready: %s", r.body)
		}
		return ""
	})
	awaitReady(t, s, "before")
	awaitReady(t, s, "during")
	waittest.Until(t, func() string {
		if n := counts(t, s, "late"); n[schema.StateReady] != 1 {
			return fmt.Sprintf("the document that was refused at first is not ready: %v", n)
		}
		return ""
	})
	s.checkStored(t)
	s.stop(t)
}

// makeRoomInLog creates spare files for Postgres' write-ahead log. Without them Postgres ends as
// soon as the log needs a new file, which can be before or after the search on the full disk.
func makeRoomInLog(t *testing.T, superuser *pgx.Conn) {
	t.Helper()
	for range 4 {
		if _, err := superuser.Exec(t.Context(), "SELECT pg_logical_emit_message(false, 'test', 'something to log'), pg_switch_wal()"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := superuser.Exec(t.Context(), "CHECKPOINT"); err != nil { // it keeps the old files for reuse
		t.Fatal(err)
	}
}
