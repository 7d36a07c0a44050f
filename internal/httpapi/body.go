package httpapi

// This file reads bodies after authentication and before decoding, within the limits of the
// operation.

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

// Limits of bodies. The default is smallBody.
var (
	smallBody = limits{bytes: 64 << 10, values: 10_000, objects: 1000}
	// queryBody fits the text of a plan, and a question of 20,000 characters.
	queryBody = limits{bytes: 1 << 20, values: 20_000, objects: 1000}
	// metadataBody fits metadata and labels.
	metadataBody = limits{bytes: 1 << 20, values: 50_000, objects: 10_000}
	// compareBody fits 5,000 names and fingerprints.
	compareBody = limits{bytes: 16 << 20, values: 20_000, objects: 6000}
	// choiceBody fits 2,000 labelled questions.
	choiceBody = limits{bytes: 16 << 20, values: 100_000, objects: 3000}
	// evaluationBody fits 300,000 figures of questions, besides the reports.
	evaluationBody = limits{bytes: 16 << 20, values: 500_000, objects: 50_000}
	// uploadBody fits 256 documents of text. A larger file is uploaded alone through PUT.
	uploadBody = limits{bytes: 64 << 20, values: 200_000, objects: 20_000, text: true}
	// accessBody fits 1,000 groups with their members.
	accessBody = limits{bytes: 16 << 20, values: 200_000, objects: 50_000}
	// sessionBody fits an API key.
	sessionBody = limits{bytes: 4 << 10, values: 20, objects: 2}
)

// bodyTime is the default limit of the time that reading a body may take.
const bodyTime = 30 * time.Second

const bodyKey = "body"

// limited sets the limits of an operation's body.
func limited(op *huma.Operation) {
	if op.Metadata == nil {
		op.Metadata = map[string]any{}
	}
	l, ok := op.Metadata[bodyKey].(limits)
	if !ok {
		l = smallBody
		op.Metadata[bodyKey] = l
	}
	op.MaxBodyBytes = l.bytes + 1 // huma refuses a body of exactly MaxBodyBytes
}

// with adds the limits to an operation's metadata.
func (l limits) with(metadata map[string]any) map[string]any {
	if metadata == nil {
		metadata = map[string]any{}
	}
	metadata[bodyKey] = l
	return metadata
}

// readFirst reads the body of an operation that decodes one, and passes it on.
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

// json refuses bodies of other content types.
func (s *server) json(ctx huma.Context) error {
	kind := ctx.Header("Content-Type")
	if err := s.api.Unmarshal(kind, []byte("null"), new(any)); errors.Is(err, huma.ErrUnknownContentType) {
		return huma.NewError(http.StatusUnsupportedMediaType, "the body is "+kind+"; send application/json")
	}
	return nil
}

// shapeOf returns the checker of an operation's body.
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

// bodyContext is a context whose body has been read.
type bodyContext struct {
	humaContext
	body []byte
}

type humaContext = huma.Context

func withBody(ctx huma.Context, body []byte) huma.Context { return &bodyContext{ctx, body} }

// BodyReader implements huma.Context.
func (c *bodyContext) BodyReader() io.Reader { return bytes.NewReader(c.body) }

// SetReadDeadline implements huma.Context. It does nothing: the body has been read, and a deadline
// would end the running request.
func (c *bodyContext) SetReadDeadline(time.Time) error { return nil }

// Unwrap returns the context below, in which humago finds the request.
func (c *bodyContext) Unwrap() huma.Context { return c.humaContext }

// bodyOf returns the body that readFirst read.
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

// readBody reads the whole body within the operation's limits. Every byte is also written to tee,
// whose error ends the reading.
func readBody(ctx huma.Context, r *http.Request, w http.ResponseWriter, tee io.Writer) ([]byte, error) {
	var body bytes.Buffer
	body.Grow(int(min(max(r.ContentLength, 0), 1<<20)) + bytes.MinRead)
	_, err := copyBody(ctx, r, w, io.MultiWriter(tee, &body))
	return body.Bytes(), err
}

// copyBody is readBody to a writer. It returns the number of bytes.
func copyBody(ctx huma.Context, r *http.Request, w http.ResponseWriter, to io.Writer) (int64, error) {
	limit, timeout := limitsOf(ctx.Operation()).bytes, ctx.Operation().BodyReadTimeout
	if timeout == 0 {
		timeout = bodyTime
	}
	if r.ContentLength > limit {
		return 0, tooLarge(limit)
	}
	if timeout > 0 {
		_ = ctx.SetReadDeadline(time.Now().Add(timeout)) // test writers may have no deadlines
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
		return 0, huma.NewError(statusClientClosedRequest, "the client went away")
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
