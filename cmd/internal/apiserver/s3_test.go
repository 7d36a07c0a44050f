package apiserver_test

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/internal/store"
	"github.com/sluice-rag/sluice/internal/store/objects"
	"github.com/sluice-rag/sluice/schema/api"
)

func newWorldInS3(t *testing.T) (*world, *localtest.S3) {
	t.Helper()
	s3 := localtest.NewS3(t)
	s3.MakeBucket("documents")
	bucket, err := objects.New(objects.Options{Endpoint: "http://" + s3.Address, Bucket: "documents", Region: "us-east-1", AccessKey: s3.AccessKey, SecretKey: s3.SecretKey})
	if err != nil {
		t.Fatal(err)
	}
	w := newWorldOf(t, store.Options{Objects: bucket, NewInObjects: true})
	w.post("/v1/collections", api.NewCollection{Name: "c"}, "").want(http.StatusCreated, nil)
	return w, s3
}

func (w *world) putText(key, id, text string) response {
	return w.post("/v1/collections/c/documents", map[string]any{"documents": []any{map[string]any{"external_id": id, "text": text}}}, key)
}

func TestS3ThatIsAway(t *testing.T) {
	w, s3 := newWorldInS3(t)
	var up api.UploadResult
	w.putText("", "a", "kept").want(http.StatusOK, &up)
	content := "/v1/documents/" + up.Documents[0].Document.String() + "/content"
	if got := w.do(http.MethodGet, content, nil, ""); got.status != http.StatusOK || string(got.body) != "kept" {
		t.Errorf("a download: %d %s", got.status, got.body)
	}
	if got := w.do(http.MethodGet, "/readyz", nil, ""); got.status != http.StatusOK || string(got.body) != "ready\n" {
		t.Errorf("readyz: %d %s", got.status, got.body)
	}
	s3.Stop()
	for what, got := range map[string]response{
		"an upload": w.putText("", "b", "new"), "an upload with a key": w.putText("k", "b", "new"), "a download": w.do(http.MethodGet, content, nil, ""),
	} {
		if got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" || bytes.Contains(got.body, []byte("127.0.0.1")) || bytes.Contains(got.body, []byte("SLUICE_")) {
			t.Errorf("%s: %d %v %s", what, got.status, got.header, got.body)
		}
	}
	// Searches and questions go on.
	if got := w.do(http.MethodGet, "/readyz", nil, ""); got.status != http.StatusOK || string(got.body) != "ready, without s3\n" {
		t.Errorf("readyz: %d %s", got.status, got.body)
	}
	s3.Start()
	// A refusal is not stored for the idempotency key.
	w.putText("k", "b", "new").want(http.StatusOK, &up)
	w.putText("k", "b", "new").want(http.StatusOK, nil)
	if got := w.do(http.MethodGet, "/v1/documents/"+up.Documents[0].Document.String()+"/content", nil, ""); got.status != http.StatusOK || string(got.body) != "new" {
		t.Errorf("a download: %d %s", got.status, got.body)
	}
}

func TestADamagedFileIsNotSentWhole(t *testing.T) {
	w, s3 := newWorldInS3(t)
	var up api.UploadResult
	w.putText("", "a", strings.Repeat("all of it. ", 50_000)).want(http.StatusOK, &up)
	found, err := filepath.Glob(filepath.Join(s3.Bucket("documents"), "*", "*", "*"))
	if err != nil || len(found) != 1 {
		t.Fatalf("objects %v, %v", found, err)
	}
	data, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	data[7] ^= 1
	if err := os.WriteFile(found[0], data, 0o600); err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.url+"/v1/documents/"+up.Documents[0].Document.String()+"/content", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+w.key)
	got, err := http.DefaultClient.Do(request)
	if err != nil {
		return // the connection was cut before the first byte was read
	}
	defer got.Body.Close() //nolint:errcheck // a test's
	var all bytes.Buffer
	if _, err := all.ReadFrom(got.Body); err == nil && got.StatusCode == http.StatusOK {
		t.Errorf("%d bytes of %d were sent, as if they were right", all.Len(), len(data))
	}
}
