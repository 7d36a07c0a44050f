package httpapi

// This file makes a POST with an idempotency key act once: a repeat gets the first one's reply.
// Replies with secrets or text of documents are not stored.

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/sluice-rag/sluice/schema"
)

type repeat int

const (
	repeatReplay repeat = iota // gets the first one's reply
	repeatRun                  // runs again
	repeatRefuse               // fails with the message that the first one was done
)

const repeatKey = "repeat"

// metadata returns an operation's metadata. Each operation has a map of its own, because route adds
// to it.
func (r repeat) metadata() map[string]any { return map[string]any{repeatKey: r} }

// repeatable reports whether an operation takes an idempotency key.
func repeatable(op *huma.Operation) bool {
	mode, _ := op.Metadata[repeatKey].(repeat)
	return op.Method == http.MethodPost && op.Metadata[scopeKey] != nil && mode != repeatRun
}

// keyParameter describes the header of repeatable operations.
var keyParameter = &huma.Param{Name: "Idempotency-Key", In: "header",
	Description: "Makes the request act once, however often this API key sends it within a day.",
	Schema:      &huma.Schema{Type: huma.TypeString, MinLength: new(1), MaxLength: new(255)}}

// idempotent answers a repeated POST with the first one's reply. The reply is stored in the
// transaction of what the request did, and sent after it. Server errors and temporary refusals are
// not stored, and what their requests did is undone, so that the request may be sent again.
func (s *server) idempotent(ctx huma.Context, next func(huma.Context)) {
	key, op := ctx.Header("Idempotency-Key"), ctx.Operation()
	if key == "" || !repeatable(op) {
		next(ctx)
		return
	}
	r, w := humago.Unwrap(ctx)
	p := caller(ctx.Context())
	body, read := bodyOf(ctx)
	documents := batchOf(ctx.Context())
	if !read && documents == nil {
		var err error
		if body, err = readBody(ctx, r, w, io.Discard); err != nil {
			s.refuse(ctx, err)
			return
		}
	}
	// The same request of another API key is another request: it may see other data.
	hash := sha256.New()
	_, _ = io.WriteString(hash, p.Key.String()+" "+r.Method+" "+r.URL.RequestURI()+"\n")
	if p.Person != "" || r.Header.Get(GroupsHeader) != "" { // and so is that of another person
		_, _ = fmt.Fprintf(hash, "%q %q\n", p.Person, p.OwnGroups())
	}
	hash.Write(body)
	if documents != nil {
		if err := documents.writeTo(hash); err != nil {
			s.refuse(ctx, problem(ctx.Context(), err))
			return
		}
	}
	secret := op.Metadata[repeatKey] == repeatRefuse
	var buffered *bufferedReply
	act := func(inside context.Context) *schema.Reply {
		buffered = &bufferedReply{header: http.Header{}, status: http.StatusOK, under: w}
		again := r.Clone(inside)
		again.Body = io.NopCloser(bytes.NewReader(body))
		next(withBody(humago.NewContext(op, again, buffered), body))
		return buffered.storable(secret)
	}
	stored, err := s.Idempotency.Once(ctx.Context(), p, key, op.OperationID, hash.Sum(nil), act)
	switch {
	case errors.Is(err, schema.ErrInProgress):
		s.refuse(ctx, huma.ErrorWithHeaders(problem(r.Context(), err), http.Header{"Retry-After": {"1"}}))
	case err != nil:
		s.refuse(ctx, problem(r.Context(), err))
	case stored != nil && secret && stored.Status < 400:
		s.refuse(ctx, huma.Error409Conflict("the first request with this Idempotency-Key was done"+createdText(stored)+
			"; the key or secret that it made is not shown again. "+
			"Remove what it made, or rotate the secret, and ask under a new Idempotency-Key"))
	case stored != nil:
		if stored.ContentType != "" {
			w.Header().Set("Content-Type", stored.ContentType)
		}
		w.Header().Set("Idempotent-Replayed", "true")
		w.WriteHeader(stored.Status)
		_, _ = w.Write(stored.Body)
	default:
		buffered.send()
	}
}

// createdID is the part of a reply with a secret that is stored.
type createdID struct {
	ID string `json:"id"`
}

func createdText(stored *schema.Reply) string {
	var m createdID
	if json.Unmarshal(stored.Body, &m) != nil || m.ID == "" {
		return ""
	}
	return " and made " + m.ID
}

// isTransient reports whether the same request may get another reply later.
func isTransient(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests, statusClientClosedRequest:
		return true
	}
	return status >= 500
}

// bufferedReply holds a reply until the transaction is committed.
type bufferedReply struct {
	header http.Header
	status int
	body   bytes.Buffer
	under  http.ResponseWriter
}

func (h *bufferedReply) Header() http.Header { return h.header }

func (h *bufferedReply) WriteHeader(status int) { h.status = status }

func (h *bufferedReply) Write(p []byte) (int, error) { return h.body.Write(p) }

// Unwrap lets http.ResponseController reach the connection.
func (h *bufferedReply) Unwrap() http.ResponseWriter { return h.under }

// storable returns the reply for repeats, or nil if the request may be sent again.
func (h *bufferedReply) storable(secret bool) *schema.Reply {
	if isTransient(h.status) {
		return nil
	}
	reply := &schema.Reply{Status: h.status, ContentType: h.header.Get("Content-Type"), Body: h.body.Bytes()}
	if secret && h.status < 400 {
		var m createdID
		_ = json.Unmarshal(reply.Body, &m) // without an id the refusal names none
		reply.Body, _ = json.Marshal(m)    // of a string: cannot fail
	}
	return reply
}

func (h *bufferedReply) send() {
	for name, values := range h.header {
		h.under.Header()[name] = values
	}
	h.under.WriteHeader(h.status)
	_, _ = h.under.Write(h.body.Bytes())
}
