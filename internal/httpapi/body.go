package httpapi

// This file reads bodies: after the caller is known, no more than the operation may have, and
// before anything decodes them.

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"syscall"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/sluice-rag/sluice/schema"
)

// What bodies may have. An operation that says nothing has smallBody.
var (
	smallBody = limits{bytes: 64 << 10, values: 10_000, objects: 1000}
	// queryBody has the text of a plan, and a question of 20,000 characters.
	queryBody = limits{bytes: 1 << 20, values: 20_000, objects: 1000}
	// metadataBody has metadata and labels.
	metadataBody = limits{bytes: 1 << 20, values: 50_000, objects: 10_000}
	// compareBody has 5,000 names and fingerprints.
	compareBody = limits{bytes: 16 << 20, values: 20_000, objects: 6000}
	// choiceBody has 2,000 labelled questions.
	choiceBody = limits{bytes: 16 << 20, values: 100_000, objects: 3000}
	// evaluationBody has 300,000 figures of questions, beside the reports.
	evaluationBody = limits{bytes: 16 << 20, values: 500_000, objects: 50_000}
	// uploadBody has 256 documents of text; a larger file goes alone through PUT.
	uploadBody = limits{bytes: 64 << 20, values: 200_000, objects: 20_000, text: true}
	// accessBody has 1,000 groups with their members.
	accessBody = limits{bytes: 16 << 20, values: 200_000, objects: 50_000}
	// sessionBody has a key.
	sessionBody = limits{bytes: 4 << 10, values: 20, objects: 2}
)

// bodyTime is how long a body that is held in memory may take.
const bodyTime = 30 * time.Second

const bodyKey = "body"

// limited sets what the body of an operation may have.
func limited(op *huma.Operation) {
	if op.Metadata == nil {
		op.Metadata = map[string]any{}
	}
	l, ok := op.Metadata[bodyKey].(limits)
	if !ok {
		l = smallBody
		op.Metadata[bodyKey] = l
	}
	op.MaxBodyBytes = l.bytes + 1 // huma refuses a body of just as many
}

// with adds to an operation's metadata what its body may have.
func (l limits) with(metadata map[string]any) map[string]any {
	if metadata == nil {
		metadata = map[string]any{}
	}
	metadata[bodyKey] = l
	return metadata
}

// readFirst reads the body of an operation that decodes one, and gives it on.
func (s *server) readFirst(ctx huma.Context, next func(huma.Context)) {
	content := ctx.Operation().RequestBody
	if content == nil || content.Content["application/json"] == nil || batchOf(ctx.Context()) != nil {
		next(ctx)
		return
	}
	if err := s.json(ctx); err != nil {
		s.refuse(ctx, err)
		return
	}
	r, w := humago.Unwrap(ctx)
	body, err := readBody(ctx, r, w, s.shapeOf(ctx.Operation()))
	if err != nil {
		s.refuse(ctx, err)
		return
	}
	next(withBody(ctx, body))
}

// json refuses bodies of another kind.
func (s *server) json(ctx huma.Context) error {
	kind := ctx.Header("Content-Type")
	if err := s.api.Unmarshal(kind, []byte("null"), new(any)); errors.Is(err, huma.ErrUnknownContentType) {
		return huma.NewError(http.StatusUnsupportedMediaType, "the body is "+kind+"; send application/json")
	}
	return nil
}

// shapeOf is what an operation's body is held against.
func (s *server) shapeOf(op *huma.Operation) *bodyChecker {
	return &bodyChecker{limits: limitsOf(op), schemas: s.api.OpenAPI().Components.Schemas,
		root: op.RequestBody.Content["application/json"].Schema}
}

func limitsOf(op *huma.Operation) limits {
	l, ok := op.Metadata[bodyKey].(limits)
	if !ok {
		return smallBody
	}
	return l
}

// bodyContext has a body that was read.
type bodyContext struct {
	humaContext
	body []byte
}

type humaContext = huma.Context

func withBody(ctx huma.Context, body []byte) huma.Context { return &bodyContext{ctx, body} }

// BodyReader implements huma.Context.
func (c *bodyContext) BodyReader() io.Reader { return bytes.NewReader(c.body) }

// SetReadDeadline implements huma.Context. Nothing more is read, and a deadline would end the
// request that goes on.
func (c *bodyContext) SetReadDeadline(time.Time) error { return nil }

// Unwrap lets humago find the request.
func (c *bodyContext) Unwrap() huma.Context { return c.humaContext }

// bodyOf is the body that readFirst read.
func bodyOf(ctx huma.Context) ([]byte, bool) {
	for {
		if c, ok := ctx.(*bodyContext); ok {
			return c.body, true
		}
		inner, ok := ctx.(interface{ Unwrap() huma.Context })
		if !ok {
			return nil, false
		}
		ctx = inner.Unwrap()
	}
}

// readBody reads the whole body within the operation's own bounds. Every byte also goes to look,
// which may end the reading.
func readBody(ctx huma.Context, r *http.Request, w http.ResponseWriter, look io.Writer) ([]byte, error) {
	var body bytes.Buffer
	body.Grow(int(min(max(r.ContentLength, 0), 1<<20)) + bytes.MinRead)
	_, err := copyBody(ctx, r, w, io.MultiWriter(look, &body))
	return body.Bytes(), err
}

// copyBody is readBody to a writer.
func copyBody(ctx huma.Context, r *http.Request, w http.ResponseWriter, to io.Writer) (int64, error) {
	limit, timeout := limitsOf(ctx.Operation()).bytes, ctx.Operation().BodyReadTimeout
	if timeout == 0 {
		timeout = bodyTime
	}
	if r.ContentLength > limit {
		return 0, tooLarge(limit)
	}
	if timeout > 0 {
		_ = ctx.SetReadDeadline(time.Now().Add(timeout)) // a writer of a test may know none
	}
	n, err := io.Copy(to, http.MaxBytesReader(w, r.Body, limit))
	var large *http.MaxBytesError
	var refused huma.StatusError
	switch {
	case err == nil:
		return n, nil
	case errors.As(err, &refused):
		return 0, err
	case errors.As(err, &large):
		return 0, tooLarge(limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return 0, huma.NewError(http.StatusRequestTimeout, "the body did not arrive in "+timeout.String())
	case errors.Is(err, context.Canceled):
		return 0, huma.NewError(statusClientGone, "the client went away")
	case errors.Is(err, syscall.ENOSPC):
		return 0, noRoom(err)
	default:
		return 0, huma.Error400BadRequest("the body was cut off: " + err.Error())
	}
}

func tooLarge(limit int64) error {
	return huma.NewError(http.StatusRequestEntityTooLarge,
		"the body is larger than "+schema.FormatBytes(limit)+", the limit of this operation")
}
