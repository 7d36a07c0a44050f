package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"github.com/sluice-rag/sluice/schema"
)

// statusClientGone is what logs show of a request whose client went away.
const statusClientGone = 499

var statuses = []struct {
	err    error
	status int
}{
	{schema.ErrNotFound, http.StatusNotFound},
	{schema.ErrUnauthorized, http.StatusUnauthorized},
	{schema.ErrForbidden, http.StatusForbidden},
	{schema.ErrConflict, http.StatusConflict},
	{schema.ErrTooLarge, http.StatusRequestEntityTooLarge},
	{schema.ErrQuota, http.StatusTooManyRequests},
	{schema.ErrInvalid, http.StatusUnprocessableEntity},
	{schema.ErrTenantOverloaded, http.StatusTooManyRequests}, // before what it is one of
	{schema.ErrOverloaded, http.StatusServiceUnavailable},
	{schema.ErrStorageFull, http.StatusInsufficientStorage},
	{schema.ErrUnavailable, http.StatusServiceUnavailable},
	{schema.ErrProvider, http.StatusBadGateway},
	{context.DeadlineExceeded, http.StatusGatewayTimeout},
}

// problem makes err a reply: what callers can act on keeps its words, anything
// else is logged and hidden.
func problem(ctx context.Context, err error) error {
	var done huma.StatusError
	if errors.As(err, &done) {
		return err
	}
	for _, s := range statuses {
		if !errors.Is(err, s.err) && (s.status != http.StatusGatewayTimeout || !late(err)) {
			continue
		}
		details := []error{}
		var field *schema.FieldError
		var remote *schema.RemoteError
		switch {
		case errors.As(err, &field):
			details = append(details, &huma.ErrorDetail{Message: field.Problem, Location: field.Field})
		case errors.As(err, &remote) && remote.Field != "":
			details = append(details, &huma.ErrorDetail{Message: remote.Message, Location: remote.Field})
		}
		out := huma.NewError(s.status, err.Error(), details...)
		// A quota does not come back by waiting.
		if s.status == http.StatusServiceUnavailable || errors.Is(err, schema.ErrTenantOverloaded) {
			return huma.ErrorWithHeaders(out, http.Header{"Retry-After": {"1"}})
		}
		return out
	}
	if errors.Is(err, context.Canceled) {
		return huma.NewError(statusClientGone, "the client went away")
	}
	slog.ErrorContext(ctx, "a request failed", "tenant", caller(ctx).Tenant, "error", err)
	return huma.NewError(http.StatusInternalServerError, "internal error; the server's log has more")
}

// late reports whether another process had too little time.
func late(err error) bool {
	var remote *schema.RemoteError
	return errors.As(err, &remote) && remote.Code == schema.CodeDeadline
}

// unproven is problem for a caller of whom nobody knows yet who it is: it hears nothing of how the
// server is built.
func unproven(ctx context.Context, err error) error {
	var done huma.StatusError
	if errors.As(err, &done) || errors.Is(err, context.Canceled) {
		return problem(ctx, err)
	}
	slog.ErrorContext(ctx, "could not check an API key", "error", err)
	return huma.ErrorWithHeaders(huma.Error503ServiceUnavailable("API keys cannot be checked now; try again"),
		http.Header{"Retry-After": {"1"}})
}

// What a problem has at most, in bytes. Texts may quote what the caller sent.
const (
	maxDetail   = 2 << 10 // of its own text and of that of one error
	maxLocation = 256
	maxTexts    = 8 << 10 // of all of them
)

// bounded is a transformer that keeps problems short: they name the first errors, and no values.
func bounded(_ huma.Context, _ string, v any) (any, error) {
	p, ok := v.(*huma.ErrorModel)
	if !ok {
		return v, nil
	}
	short := *p
	short.Detail, short.Errors = cut(p.Detail, maxDetail), nil
	left := maxTexts - len(short.Detail)
	for _, e := range p.Errors {
		if e == nil {
			continue
		}
		d := &huma.ErrorDetail{Location: cut(e.Location, maxLocation), Message: cut(e.Message, maxDetail)}
		if left -= len(d.Location) + len(d.Message); len(short.Errors) == maxErrors || left < 0 {
			break
		}
		short.Errors = append(short.Errors, d)
	}
	if shown := len(short.Errors); shown < len(p.Errors) {
		short.Detail += fmt.Sprintf(" (the first %d of %d errors)", shown, len(p.Errors))
	}
	return &short, nil
}

// cut returns the first n bytes of a text, whole characters of them, and says when that is not all.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + "..."
}

func writeProblem(w http.ResponseWriter, status int, detail string) {
	body, err := json.Marshal(&huma.ErrorModel{Status: status, Title: http.StatusText(status), Detail: detail})
	if err != nil {
		body = []byte(`{}`) // cannot happen: plain strings
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

func writeText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text))
}
