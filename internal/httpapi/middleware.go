package httpapi

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/sluice-rag/sluice/schema"
)

type callerKey struct{}

// caller returns who makes the request.
func caller(ctx context.Context) schema.Principal {
	p, _ := ctx.Value(callerKey{}).(schema.Principal)
	return p
}

const scopeKey = "scope"

// authenticate resolves the API key and holds it against the operation's scope.
func (s *server) authenticate(ctx huma.Context, next func(huma.Context)) {
	scope, guarded := ctx.Operation().Metadata[scopeKey].(schema.Scope)
	if !guarded {
		next(ctx)
		return
	}
	key, ok := strings.CutPrefix(ctx.Header("Authorization"), "Bearer ")
	if !ok || key == "" {
		ctx.SetHeader("WWW-Authenticate", "Bearer")
		s.refuse(ctx, huma.Error401Unauthorized("send an API key as \"Authorization: Bearer <key>\""))
		return
	}
	p, err := s.Authenticator.Authenticate(ctx.Context(), strings.TrimSpace(key))
	switch {
	case errors.Is(err, schema.ErrUnauthorized):
		ctx.SetHeader("WWW-Authenticate", "Bearer")
		s.refuse(ctx, huma.Error401Unauthorized("the API key is unknown, revoked or expired"))
		return
	case err != nil:
		s.refuse(ctx, problem(ctx.Context(), err))
		return
	case scope != "" && !p.Has(scope):
		s.refuse(ctx, huma.Error403Forbidden("the API key lacks the "+string(scope)+" scope"))
		return
	}
	next(huma.WithValue(ctx, callerKey{}, p))
}

func (s *server) refuse(ctx huma.Context, err error) {
	status := huma.Error500InternalServerError("internal error")
	errors.As(err, &status)
	var headers huma.HeadersError
	if errors.As(err, &headers) {
		for name, values := range headers.GetHeaders() {
			ctx.SetHeader(name, values[0])
		}
	}
	var details []error // the fields that are wrong
	var model *huma.ErrorModel
	if errors.As(err, &model) {
		for _, d := range model.Errors {
			details = append(details, d)
		}
	}
	_ = huma.WriteErr(s.api, ctx, status.GetStatus(), status.Error(), details...)
}

// idempotent answers a repeated POST with the first one's reply. Replies over
// 1 MB and server errors are not kept: the request may be sent again.
func (s *server) idempotent(ctx huma.Context, next func(huma.Context)) {
	key := ctx.Header("Idempotency-Key")
	if ctx.Method() != http.MethodPost || key == "" || ctx.Operation().Metadata[scopeKey] == nil {
		next(ctx)
		return
	}
	r, w := humago.Unwrap(ctx)
	p := caller(ctx.Context())
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, uploadBody))
	if err != nil {
		s.refuse(ctx, huma.NewError(http.StatusRequestEntityTooLarge, "the body is too large or was cut off: "+err.Error()))
		return
	}
	hash := sha256.New()
	_, _ = io.WriteString(hash, r.Method+" "+r.URL.RequestURI()+"\n")
	hash.Write(body)
	stored, err := s.Idempotency.BeginRequest(r.Context(), p, key, ctx.Operation().OperationID, hash.Sum(nil))
	switch {
	case err != nil:
		s.refuse(ctx, problem(r.Context(), err))
		return
	case stored != nil:
		w.Header().Set("Content-Type", stored.ContentType)
		w.Header().Set("Idempotent-Replayed", "true")
		w.WriteHeader(stored.Status)
		_, _ = w.Write(stored.Body)
		return
	}
	// What follows must be settled even when the client has gone.
	settle, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), 10*time.Second)
	defer cancel()
	kept := &recorder{ResponseWriter: w, status: http.StatusOK}
	again := r.Clone(ctx.Context())
	again.Body = io.NopCloser(bytes.NewReader(body))
	var reply *schema.Reply
	defer func() { // also when the handler panics
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
	next(humago.NewContext(ctx.Operation(), again, kept))
	if kept.status < 500 && kept.body.Len() <= maxKept {
		reply = &schema.Reply{Status: kept.status, ContentType: kept.Header().Get("Content-Type"), Body: kept.body.Bytes()}
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

type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func logged(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begin := time.Now()
		sw := &statusWriter{ResponseWriter: w}
		next.ServeHTTP(sw, r)
		level := slog.LevelDebug
		if sw.status >= 500 {
			level = slog.LevelWarn
		}
		slog.Log(r.Context(), level, "http request", "method", r.Method, "path", r.URL.Path, "status", sw.status, "ms", time.Since(begin).Milliseconds())
	})
}

func recovered(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if p := recover(); p != nil {
				if p == http.ErrAbortHandler {
					panic(p)
				}
				slog.ErrorContext(r.Context(), "a request handler panicked", "path", r.URL.Path, "panic", p)
				writeProblem(w, http.StatusInternalServerError, "internal error; the server's log has more")
			}
		}()
		next.ServeHTTP(w, r)
	})
}
