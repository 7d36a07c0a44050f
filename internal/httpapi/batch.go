package httpapi

// This file receives a batch of documents. The body is written to a temporary file while it
// arrives, and documents are decoded from there one at a time.

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"syscall"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/sluice-rag/sluice/schema"
	"github.com/sluice-rag/sluice/schema/api"
)

const (
	// maxInBatch bounds one document of a batch, in bytes of JSON. A larger one is uploaded alone.
	maxInBatch = 16 << 20
	// maxAround bounds the part of a batch outside its documents, in bytes.
	maxAround = 1 << 20
	// maxDecoders bounds the batches that are decoded concurrently, and with it the memory.
	maxDecoders = 2
)

// takesUploads is the metadata key of operations that take uploads. Its value is the length in
// bytes that a body of unknown length counts as.
const takesUploads = "uploads"

type batchKey struct{}

// byteRange is the position of a document in a batch.
type byteRange struct{ begin, end int64 }

// batch is the body of an upload.
type batch struct {
	file  *os.File // the body as it came, followed by the decoded contents
	size  int64
	spans []byteRange
}

// upload admits uploads, and spools a batch to a file for the duration of its request.
func (s *server) upload(ctx huma.Context, next func(huma.Context)) {
	limit, ok := ctx.Operation().Metadata[takesUploads].(int64)
	if !ok {
		next(ctx)
		return
	}
	r, w := humago.Unwrap(ctx)
	length := r.ContentLength
	if length < 0 {
		length = limit
	}
	leave, err := s.uploads.acquire(caller(ctx.Context()).Key, length)
	if err != nil {
		s.refuse(ctx, err)
		return
	}
	defer leave()
	if ctx.Operation().Metadata[bodyKey] != uploadBody {
		next(ctx)
		return
	}
	b, err := s.spool(ctx, r, w)
	if err != nil {
		s.refuse(ctx, err)
		return
	}
	defer b.close()
	next(huma.WithValue(ctx, batchKey{}, b))
}

func batchOf(ctx context.Context) *batch {
	b, _ := ctx.Value(batchKey{}).(*batch)
	return b
}

// spool writes a batch to a temporary file, and checks the part outside its documents.
func (s *server) spool(ctx huma.Context, r *http.Request, w http.ResponseWriter) (_ *batch, err error) {
	if err := s.json(ctx); err != nil {
		return nil, err
	}
	file, err := os.CreateTemp("", "sluice-batch-*")
	if err != nil {
		return nil, problem(ctx.Context(), fmt.Errorf("make a temporary file for an upload: %w", err))
	}
	b := &batch{file: file}
	defer func() {
		if err != nil {
			b.close()
		}
	}()
	_ = os.Remove(file.Name()) // if the system allows it, a killed process leaves no file
	form := s.shapeOf(ctx.Operation())
	around := &skeleton{}
	form.rest, form.spans = around, &b.spans
	if b.size, err = copyBody(ctx, r, w, io.MultiWriter(form, file)); err != nil {
		return nil, err
	}
	return b, form.check(around)
}

// check validates the part of a batch outside its documents.
func (s *bodyChecker) check(around *skeleton) error {
	var outer struct{ Documents []int }
	switch err := json.Unmarshal(around.Bytes(), &outer); {
	case around.Len() == 0:
		return huma.Error400BadRequest("request body is required")
	case len(s.invalid) > 0:
		return huma.NewError(http.StatusUnprocessableEntity, "validation failed", s.invalid...)
	case err != nil:
		return huma.Error400BadRequest("validation failed", &huma.ErrorDetail{Location: "body", Message: err.Error()})
	case len(outer.Documents) == 0 || len(*s.spans) != len(outer.Documents):
		return huma.Error422UnprocessableEntity("validation failed",
			&huma.ErrorDetail{Location: "body.documents", Message: "expected a list of 1 to 256 documents, once"})
	}
	return nil
}

// skeleton is a batch with a number in place of each document.
type skeleton struct{ bytes.Buffer }

func (b *batch) close() {
	_ = b.file.Close()
	_ = os.Remove(b.file.Name()) // on systems that do not remove open files
}

// writeTo writes the whole body.
func (b *batch) writeTo(w io.Writer) error {
	_, err := io.Copy(w, io.NewSectionReader(b.file, 0, b.size))
	return err
}

// documents decodes the batch. It appends the contents to the file, behind the body.
func (b *batch) documents(ctx context.Context, s *server) ([]schema.Upload, error) {
	select {
	case s.decoding <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-s.decoding }()
	schemas := s.api.OpenAPI().Components.Schemas
	of := schemas.SchemaFromRef("#/components/schemas/NewDocument")
	out, end := make([]schema.Upload, len(b.spans)), b.size
	for i, at := range b.spans {
		place := fmt.Sprintf("body.documents[%d]", i)
		raw := make([]byte, at.end-at.begin)
		if _, err := b.file.ReadAt(raw, at.begin); err != nil {
			return nil, fmt.Errorf("read back an upload: %w", err)
		}
		d, err := decodeDocument(schemas, of, place, raw)
		if err != nil {
			return nil, err
		}
		content := d.Content
		switch {
		case d.Text != "" && len(content) > 0:
			return nil, schema.Invalid(place, "has both text and content; send one")
		case d.Text != "":
			content = []byte(d.Text)
		}
		if _, err := b.file.WriteAt(content, end); err != nil {
			return nil, noRoom(fmt.Errorf("write an upload into a temporary file: %w", err))
		}
		out[i] = schema.Upload{ExternalID: d.ExternalID, Title: d.Title, MediaType: d.MediaType, Labels: d.Labels,
			Metadata: d.Metadata, Content: io.NewSectionReader(b.file, end, int64(len(content)))}
		end += int64(len(content))
	}
	return out, nil
}

// decodeDocument decodes and validates one document of a batch.
func decodeDocument(schemas huma.Registry, of *huma.Schema, place string, raw []byte) (d api.NewDocument, err error) {
	var parsed any
	if err := json.Unmarshal(raw, &parsed); err != nil {
		return d, huma.Error400BadRequest("validation failed", &huma.ErrorDetail{Location: place, Message: err.Error()})
	}
	var found huma.ValidateResult
	path := huma.NewPathBuffer(nil, 0)
	path.Push(place)
	huma.Validate(schemas, of, path, huma.ModeWriteToServer, parsed, &found)
	if len(found.Errors) > 0 {
		return d, huma.Error422UnprocessableEntity("validation failed", found.Errors...)
	}
	if err := json.Unmarshal(raw, &d); err != nil {
		return d, huma.Error422UnprocessableEntity("validation failed", &huma.ErrorDetail{Location: place, Message: err.Error()})
	}
	return d, nil
}

// noRoom gives the error of a full disk its own status.
func noRoom(err error) error {
	if errors.Is(err, syscall.ENOSPC) {
		return huma.NewError(http.StatusInsufficientStorage, "the server's disk is full; nothing was stored")
	}
	return err
}
