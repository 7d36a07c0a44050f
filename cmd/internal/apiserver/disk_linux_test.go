package apiserver_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/cmd/internal/apiserver"
	"github.com/sluice-rag/sluice/internal/config"
	"github.com/sluice-rag/sluice/internal/local"
	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

// TestUploadsLeaveRoomOnTheDisk: below the minimum of free space uploads are refused with 507 while
// jobs and reads go on. Uploads work again when there is space.
func TestUploadsLeaveRoomOnTheDisk(t *testing.T) {
	w := newWorld(t)
	w.post("/v1/collections", api.NewCollection{Name: "c"}, "").want(http.StatusCreated, nil)
	disk := localtest.Disk(t, 20<<20)
	server := startServer(t, config.HTTP{}, apiserver.Deps{Store: w.store.Store, NATS: w.nats,
		CheckDisk: func() error { return local.CheckDisk(disk, 512<<20) }})
	u := user{t: t, url: server.URL(), key: w.key}
	upload := func() response {
		return u.post("/v1/collections/c/documents", api.Upload{Documents: []api.NewDocument{{ExternalID: "a", Text: "a"}}}, "upload")
	}
	filler := filepath.Join(disk, "filler")
	if err := os.WriteFile(filler, make([]byte, 19<<20+512<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	refused := upload()
	refused.want(http.StatusInsufficientStorage, nil)
	if !strings.Contains(string(refused.body), "SLUICE_KEEP_FREE") {
		t.Errorf("the refusal is %s", refused.body)
	}
	u.do(http.MethodPut, "/v1/collections/c/content?external_id=b", strings.NewReader("b"), "").want(http.StatusInsufficientStorage, nil)
	var job schema.Job
	u.post("/v1/jobs", api.Query{Collection: "c", Query: "What?"}, "").want(http.StatusAccepted, &job)
	u.do(http.MethodGet, "/v1/jobs/"+job.ID.String(), http.NoBody, "").want(http.StatusOK, nil)
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	upload().want(http.StatusOK, nil) // with the same idempotency key: the refusal was not kept
}
