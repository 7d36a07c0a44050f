package httpapi

// This file makes a POST with an idempotency key act once: a repeat gets the
// first one's reply. Replies with secrets or documents' text are never kept.

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/sluice-rag/sluice/schema"
)

type repeat int

const (
	repeatReplay repeat = iota // gets the first one's reply
	repeatRun                  // runs again
	repeatRefuse               // is told that the first one was done
)

const repeatKey = "repeat"

// metadata returns an operation's metadata. Each operation has its own: route
// adds to it.
func (r repeat) metadata() map[string]any { return map[string]any{repeatKey: r} }

// idempotent answers a repeated POST with the first one's reply. Replies over
// 1 MB, server errors and refusals that pass are not kept: the request may be
// sent again.
func (s *server) idempotent(ctx huma.Context, next func(huma.Context)) {
	key, op := ctx.Header("Idempotency-Key"), ctx.Operation()
	mode, _ := op.Metadata[repeatKey].(repeat)
	if ctx.Method() != http.MethodPost || key == "" || op.Metadata[scopeKey] == nil || mode == repeatRun {
		next(ctx)
		return
	}
	r, w := humago.Unwrap(ctx)
	p := caller(ctx.Context())
	body, err := readBody(ctx, r, w)
	if err != nil {
		s.refuse(ctx, err)
		return
	}
	// Another API key's request is another request: it may see other things.
	hash := sha256.New()
	_, _ = io.WriteString(hash, p.Key.String()+" "+r.Method+" "+r.URL.RequestURI()+"\n")
	if p.Person != "" || r.Header.Get(groupsHeader) != "" { // so is another person's
		_, _ = fmt.Fprintf(hash, "%q %q\n", p.Person, p.Groups)
	}
	hash.Write(body)
	stored, err := s.Idempotency.BeginRequest(r.Context(), p, key, op.OperationID, hash.Sum(nil))
	switch {
	case err != nil:
		s.refuse(ctx, problem(r.Context(), err))
		return
	case stored != nil && mode == repeatRefuse && stored.Status < 400:
		s.refuse(ctx, huma.Error409Conflict("the first request with this Idempotency-Key was done; the key or secret that it made is not shown again. "+
			"Remove what it made, or rotate the secret, and ask under a new Idempotency-Key"))
		return
	case stored != nil:
		w.Header().Set("Content-Type", stored.ContentType)
		w.Header().Set("Idempotent-Replayed", "true")
		w.WriteHeader(stored.Status)
		_, _ = w.Write(stored.Body)
		return
	}
	// What follows must be settled even when the client has gone.
	kept := &recorder{ResponseWriter: w, status: http.StatusOK}
	again := r.Clone(ctx.Context())
	again.Body = io.NopCloser(bytes.NewReader(body))
	var reply *schema.Reply
	defer func() { // also when the handler panics
		settle, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), 10*time.Second)
		defer cancel()
		var err error
		if reply != nil {
			err = s.Idempotency.CompleteRequest(settle, p, key, *reply)
		} else {
			err = s.Idempotency.AbandonRequest(settle, p, key)
		}
		if err != nil {
			slog.WarnContext(settle, "could not settle an idempotency key", "tenant", p.Tenant, "error", err)
		}
	}()
	next(humago.NewContext(op, again, kept))
	if passing(kept.status) || kept.body.Len() > maxKept {
		return
	}
	reply = &schema.Reply{Status: kept.status}
	if mode != repeatRefuse || kept.status >= 400 {
		reply.ContentType, reply.Body = kept.Header().Get("Content-Type"), kept.body.Bytes()
	}
}

// passing tells whether the same request may get another reply later.
func passing(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests, statusClientGone:
		return true
	}
	return status >= 500
}

// What huma reads of an operation that names no bounds.
const (
	defaultBody     = 1 << 20
	defaultBodyTime = 5 * time.Second
)

// readBody reads the whole body within the operation's own bounds.
func readBody(ctx huma.Context, r *http.Request, w http.ResponseWriter) ([]byte, error) {
	limit, timeout := ctx.Operation().MaxBodyBytes, ctx.Operation().BodyReadTimeout
	if limit == 0 {
		limit = defaultBody
	}
	if timeout == 0 {
		timeout = defaultBodyTime
	}
	if timeout > 0 {
		_ = ctx.SetReadDeadline(time.Now().Add(timeout)) // a writer of a test may know none
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	var large *http.MaxBytesError
	switch {
	case err == nil:
		return body, nil
	case errors.As(err, &large):
		return nil, huma.NewError(http.StatusRequestEntityTooLarge, "the body is too large: "+err.Error())
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, huma.NewError(http.StatusRequestTimeout, "the body did not arrive in "+timeout.String())
	default:
		return nil, huma.Error400BadRequest("the body was cut off: " + err.Error())
	}
}

const maxKept = 1 << 20

// recorder passes a reply on and keeps a copy of up to maxKept bytes and one.
type recorder struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

func (r *recorder) WriteHeader(status int) {
	r.status = status
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(p []byte) (int, error) {
	r.body.Write(p[:min(len(p), max(0, maxKept+1-r.body.Len()))])
	return r.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController reach the connection.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
