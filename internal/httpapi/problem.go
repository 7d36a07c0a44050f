package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"

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
	{schema.ErrOverloaded, http.StatusServiceUnavailable},
	{schema.ErrUnavailable, http.StatusServiceUnavailable},
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
		if !errors.Is(err, s.err) {
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
		if s.status == http.StatusServiceUnavailable {
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
