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

// statusClientClosedRequest is the status in logs of a request whose client went away.
const statusClientClosedRequest = 499

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
	{schema.ErrTenantOverloaded, http.StatusTooManyRequests}, // it wraps ErrOverloaded
	{schema.ErrOverloaded, http.StatusServiceUnavailable},
	{schema.ErrStorageFull, http.StatusInsufficientStorage},
	{schema.ErrUnavailable, http.StatusServiceUnavailable},
	{schema.ErrProvider, http.StatusBadGateway},
	{context.DeadlineExceeded, http.StatusGatewayTimeout},
}

// problem converts err to a reply. Errors that callers can act on keep their text; any other is
// logged and hidden.
func problem(ctx context.Context, err error) error {
	var done huma.StatusError
	if errors.As(err, &done) {
		return err
	}
	for _, s := range statuses {
		if !errors.Is(err, s.err) && (s.status != http.StatusGatewayTimeout || !isRemoteDeadline(err)) {
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
		// Waiting does not restore a quota.
		if s.status == http.StatusServiceUnavailable || errors.Is(err, schema.ErrTenantOverloaded) {
			return huma.ErrorWithHeaders(out, http.Header{"Retry-After": {"1"}})
		}
		return out
	}
	if errors.Is(err, context.Canceled) {
		return huma.NewError(statusClientClosedRequest, "the client went away")
	}
	slog.ErrorContext(ctx, "a request failed", "tenant", caller(ctx).Tenant, "error", err)
	return huma.NewError(http.StatusInternalServerError, "internal error; the server's log has more")
}

// isRemoteDeadline reports whether another process ran out of time.
func isRemoteDeadline(err error) bool {
	var remote *schema.RemoteError
	return errors.As(err, &remote) && remote.Code == schema.CodeDeadline
}

// authProblem is problem for a caller that is not authenticated. It reveals nothing about the
// server.
func authProblem(ctx context.Context, err error) error {
	var done huma.StatusError
	if errors.As(err, &done) || errors.Is(err, context.Canceled) {
		return problem(ctx, err)
	}
	slog.ErrorContext(ctx, "could not check an API key", "error", err)
	return huma.ErrorWithHeaders(huma.Error503ServiceUnavailable("API keys cannot be checked now; try again"),
		http.Header{"Retry-After": {"1"}})
}

// Limits of a problem, in bytes. Its texts may quote the client.
const (
	maxDetail   = 2 << 10 // of its detail, and of one error's message
	maxLocation = 256
	maxTexts    = 8 << 10 // of all texts together
)

// bounded is a transformer that shortens problems: they have the first errors, without values.
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

// cut returns the first n bytes of a text, without an incomplete character, and marks that it was
// cut.
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
