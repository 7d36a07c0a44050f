//go:build cgo

package ingestworker

// Ingestion with real parts: parser children, the shipped model pack in a model server, and files
// of every format.

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/sluice-rag/sluice/internal/documents"
	"github.com/sluice-rag/sluice/internal/inference"
	"github.com/sluice-rag/sluice/internal/inference/modelpack"
	"github.com/sluice-rag/sluice/internal/lifecycle"
	"github.com/sluice-rag/sluice/internal/local"
	"github.com/sluice-rag/sluice/schema"
)

var root = filepath.Join("..", "..", "..")

// modelServer runs the model server with the shipped pack until the test ends.
func (w *world) modelServer() {
	w.t.Helper()
	w.modelServerOf(filepath.Join(root, "models", "default"))
}

// modelServerOf runs a model server with the pack in a folder.
func (w *world) modelServerOf(pack string) {
	w.t.Helper()
	library, err := local.FindONNXRuntime()
	w.ok(err)
	model, err := inference.Open(inference.Options{Pack: pack, Library: library})
	w.ok(err)
	w.t.Cleanup(func() { w.ok(model.Close()) })
	server := inference.NewServer(w.nats, model, inference.ServerOptions{})
	w.ok(server.Start(w.context()))
	w.t.Cleanup(func() { w.ok(server.Stop(context.Background())) })
}

// startProduction runs the worker as programs do.
func (w *world) startProduction() {
	w.t.Helper()
	worker, err := New(w.settings, Deps{Store: w.store.Store, NATS: w.nats, Temporal: w.client})
	w.ok(err)
	w.ok(worker.Start(w.context()))
	w.t.Cleanup(func() { w.ok(worker.Stop(w.context())) })
}

func examples(t *testing.T) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	dir := filepath.Join(root, "examples", "documents")
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		files[name], err = os.ReadFile(path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 25 {
		t.Fatalf("only %d example documents", len(files))
	}
	return files
}

func TestExamplesAndHostileFilesWithRealParsersAndModels(t *testing.T) {
	w := newWorld(t)
	w.modelServer()
	files := examples(t)
	good := len(files)
	hostile := map[string]struct {
		data   []byte
		reason string
	}{
		"empty.txt":    {nil, schema.ReasonEmpty},
		"binary.dat":   {slices.Repeat([]byte{0x7f, 'E', 'L', 'F', 0, 1, 2, 0xff, 0x00, 0xfe}, 500), schema.ReasonUnsupported},
		"cut.pdf":      {[]byte("%PDF-1.7\n1 0 obj\n<< /Type /Cat"), schema.ReasonBroken},
		"not-word.zip": {[]byte("PK\x03\x04 this is no archive"), ""},
	}
	var uploads []schema.Upload
	for name, data := range files {
		uploads = append(uploads, schema.Upload{ExternalID: name, FileName: name, Content: bytes.NewReader(data)})
	}
	for name, h := range hostile {
		uploads = append(uploads, schema.Upload{ExternalID: name, FileName: name, Content: bytes.NewReader(h.data)})
	}
	_, err := documents.New(w.store, documents.Options{}).Upload(w.context(), w.principal, w.collection, uploads)
	w.ok(err)
	w.startProduction()
	w.awaitStates(map[schema.State]int{schema.StateReady: good, schema.StateFailed: len(hostile)})
	w.checkStored()
	for name, h := range hostile {
		d := w.document(name)
		if d.Reason == nil || d.Reason.Message == "" || h.reason != "" && d.Reason.Code != h.reason {
			t.Errorf("%s: reason %+v, want %s", name, d.Reason, h.reason)
		}
	}
	if n := w.count(`SELECT count(*) FROM vectors_256 WHERE vector_norm(embedding::vector) NOT BETWEEN 0.99 AND 1.01`); n != 0 {
		t.Errorf("%d vectors are not of length 1", n)
	}
}

// TestAnAddedEncoderWithRealParsersAndModels: documents are cut by the shipped
// segmenter and encoded by an encoder of another family and dimension.
func TestAnAddedEncoderWithRealParsersAndModels(t *testing.T) {
	w := newWorld(t)
	added, err := modelpack.Add(w.context(), modelpack.Options{Dir: t.TempDir()}, modelpack.Addition{
		From: filepath.Join(root, "internal", "inference", "modelpack", "testdata", "pooled-384"), Onto: filepath.Join(root, "models", "default")})
	w.ok(err)
	w.modelServerOf(added.Pack.Path)
	var uploads []schema.Upload
	for name, data := range examples(t) {
		if filepath.Ext(name) == ".md" {
			uploads = append(uploads, schema.Upload{ExternalID: name, FileName: name, Content: bytes.NewReader(data)})
		}
	}
	_, err = documents.New(w.store, documents.Options{}).Upload(w.context(), w.principal, w.collection, uploads)
	w.ok(err)
	w.startProduction()
	w.awaitStates(map[schema.State]int{schema.StateReady: len(uploads)})
	passages, vectors := w.count(`SELECT count(*) FROM passages`), w.count(`SELECT count(*) FROM vectors_384 WHERE vector_norm(embedding::vector) BETWEEN 0.99 AND 1.01`)
	if passages <= len(uploads) || vectors != passages || w.count(`SELECT count(*) FROM vectors_256`) != 0 {
		t.Errorf("%d documents, %d passages, %d vectors of the added encoder", len(uploads), passages, vectors)
	}
	if w.count(`SELECT count(*) FROM spaces WHERE name = $1 AND dimension = 384`, added.Pack.Space) != 1 {
		t.Errorf("there is no space %s", added.Pack.Space)
	}
}

func TestBatchLinksToTheTracesOfItsUploads(t *testing.T) {
	spans := tracetest.NewInMemoryExporter()
	provider := trace.NewTracerProvider(trace.WithSyncer(spans))
	before := otel.GetTracerProvider()
	otel.SetTracerProvider(provider)
	defer otel.SetTracerProvider(before)

	w := newWorld(t)
	ctx, span := provider.Tracer("test").Start(w.context(), "upload")
	content := document("traced", 2)
	_, err := documents.New(w.store, documents.Options{}).Upload(ctx, w.principal, w.collection, []schema.Upload{{ExternalID: "a.md", Content: strings.NewReader(content)}})
	w.ok(err)
	span.End()
	stop := w.start()
	w.awaitStates(map[schema.State]int{schema.StateReady: 1})
	stop()
	linked := map[string]bool{}
	for _, s := range spans.GetSpans() {
		for _, link := range s.Links {
			if link.SpanContext.TraceID() == span.SpanContext().TraceID() {
				linked[s.Name] = true
			}
		}
	}
	for _, name := range []string{"ingest batch", "ingest parse", "ingest index"} {
		if !linked[name] {
			t.Errorf("span %q does not link to the upload's trace; linked: %v", name, linked)
		}
	}
}

func TestWorkerKeepsTheLifecycleContract(t *testing.T) {
	w := newWorld(t)
	worker, err := New(w.settings, Deps{Store: w.store.Store, NATS: w.nats, Temporal: w.client})
	w.ok(err)
	w.ok(worker.Stop(w.context()))
	for range 2 {
		w.ok(worker.Start(w.context()))
		if err := worker.Start(w.context()); err == nil || !strings.Contains(err.Error(), lifecycle.ErrStarted.Error()) {
			t.Errorf("second start: %v", err)
		}
		w.ok(worker.Stop(w.context()))
		w.ok(worker.Stop(w.context()))
		select {
		case <-worker.Done():
		default:
			t.Error("a stopped worker is not done")
		}
		w.ok(worker.Err())
	}
}
