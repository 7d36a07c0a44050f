package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/sluice-rag/sluice/schema"
)

type callerKey struct{}

// caller returns the principal that makes the request.
func caller(ctx context.Context) schema.Principal {
	p, _ := ctx.Value(callerKey{}).(schema.Principal)
	return p
}

const (
	scopeKey = "scope"
	// admitKey is the metadata key of operations without authentication. Its value checks the
	// request before its body is read.
	admitKey = "admit"
)

// authenticate resolves the API key, or that of the session, and checks the operation's scope.
func (s *server) authenticate(ctx huma.Context, next func(huma.Context)) {
	scope, guarded := ctx.Operation().Metadata[scopeKey].(schema.Scope)
	if !guarded {
		if admit, ok := ctx.Operation().Metadata[admitKey].(func(*http.Request) error); ok {
			r, _ := humago.Unwrap(ctx)
			if err := admit(r); err != nil {
				s.refuse(ctx, err)
				return
			}
		}
		next(ctx)
		return
	}
	used, err := s.key(ctx)
	switch {
	case errors.Is(err, errNoKey):
		ctx.SetHeader("WWW-Authenticate", "Bearer")
		s.refuse(ctx, huma.Error401Unauthorized("send an API key as \"Authorization: Bearer <key>\""))
		return
	case errors.Is(err, schema.ErrUnauthorized):
		s.refuse(ctx, huma.Error401Unauthorized("the session is over; sign in again"))
		return
	case err != nil:
		s.refuse(ctx, authProblem(ctx.Context(), err))
		return
	}
	r, _ := humago.Unwrap(ctx)
	p, err := s.keyPrincipal(r, used.key)
	recordOf(ctx.Context()).by(p)
	switch {
	case errors.Is(err, errWrongAddress):
		s.refuse(ctx, s.addressProblem(r))
		return
	case errors.As(err, new(tokenError)):
		if errors.Is(err, schema.ErrUnauthorized) {
			ctx.SetHeader("WWW-Authenticate", `Bearer error="invalid_token"`)
		}
		s.refuse(ctx, problem(ctx.Context(), err))
		return
	case errors.Is(err, schema.ErrUnauthorized):
		ctx.SetHeader("WWW-Authenticate", "Bearer")
		s.refuse(ctx, huma.Error401Unauthorized("the API key is unknown, revoked or expired"))
		return
	case err != nil:
		s.refuse(ctx, authProblem(ctx.Context(), err))
		return
	}
	used.owner = p
	if err := s.admit(p, time.Now()); err != nil {
		s.refuse(ctx, err)
		return
	}
	acting, err := actingFor(r.Header, p)
	if err == nil {
		recordOf(ctx.Context()).by(acting)
	}
	switch {
	case err != nil:
		s.refuse(ctx, err)
		return
	case scope != "" && p.Has(scope) && !acting.Has(scope):
		s.refuse(ctx, huma.Error403Forbidden("a request on behalf of a person has only the query scope; this one needs the "+string(scope)+" scope"))
		return
	}
	if p, err = s.permit(ctx.Context(), acting); err != nil {
		s.refuse(ctx, authProblem(ctx.Context(), err))
		return
	}
	if p, err = s.allowed(ctx, p, scope); err != nil {
		s.refuse(ctx, problem(ctx.Context(), err))
		return
	}
	next(huma.WithValue(huma.WithValue(ctx, callerKey{}, p), credentialKey{}, used))
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
	var details []error // the invalid fields
	var model *huma.ErrorModel
	if errors.As(err, &model) {
		for _, d := range model.Errors {
			details = append(details, d)
		}
	}
	_ = huma.WriteErr(s.api, ctx, status.GetStatus(), status.Error(), details...)
}

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
