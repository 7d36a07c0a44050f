package llm

// This file explains the errors of a model's server, and decides which of them are retried.

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/retrypolicy"

	"github.com/sluice-rag/sluice/schema"
)

// endpoint is a model at a server, with the names of the settings that set them.
type endpoint struct {
	address                              string // without credentials
	model                                string
	timeout                              time.Duration // of a completion, retries included
	keySetting, urlSetting, modelSetting string
}

// newEndpoint checks the address and the model, and sets defaults.
func newEndpoint(e endpoint, example string) (endpoint, error) {
	u, err := url.Parse(e.address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return endpoint{}, schema.Invalid(e.urlSetting, "needs an http or https address, for example %s", example)
	}
	e.address = redacted(u)
	if e.model == "" {
		return endpoint{}, schema.Invalid(e.modelSetting, "is missing: name the model that %s is to use", e.address)
	}
	if e.timeout <= 0 {
		e.timeout = defaultTimeout
	}
	return e, nil
}

// redacted returns an address without its user, which may be a key, and without its query.
func redacted(u *url.URL) string {
	shown := *u
	shown.User, shown.RawQuery = nil, ""
	return shown.String()
}

// transientError is a transient error.
type transientError struct {
	*schema.RemoteError
	after time.Duration // the wait that the server asked for; 0: none
	begun bool          // the reply had begun
}

func (e *transientError) Unwrap() error { return e.RemoteError }

// ended returns the error of a call whose context ended: its deadline passed, or it was cancelled.
func (e endpoint) ended(ctx context.Context) error {
	if !cancelled(ctx) {
		return e.timeoutError()
	}
	return &schema.RemoteError{Code: schema.CodeUnavailable, Message: fmt.Sprintf(
		"the call to model %s at %s was cancelled: %v", e.model, e.address, context.Cause(ctx))}
}

// cancelled reports whether a context was cancelled, not ended by its deadline.
func cancelled(ctx context.Context) bool { return errors.Is(ctx.Err(), context.Canceled) }

func (e endpoint) timeoutError() error {
	return &schema.RemoteError{Code: schema.CodeDeadline, Message: fmt.Sprintf(
		"model %s at %s took over %s: raise SLUICE_LLM_TIMEOUT or use a faster model", e.model, e.address, e.timeout)}
}

func (e endpoint) unreachable(why error) error {
	return &transientError{RemoteError: &schema.RemoteError{Code: schema.CodeUnavailable, Message: fmt.Sprintf(
		"no answer from %s: check that it runs and %s (%v)", e.address, e.urlSetting, why)}}
}

// configError returns an error that a person must fix: a retry would fail in the same way.
func configError(format string, args ...any) error {
	return &schema.RemoteError{Code: schema.CodeInternal, OfProvider: true, Message: fmt.Sprintf(format, args...)}
}

// unreadableReply is the error of a reply that is complete but not in the form that was asked for,
// also after the model was asked once more.
type unreadableReply struct{ error }

func (e *unreadableReply) Unwrap() error { return e.error }

// malformedReply returns the error of a reply that ended early or cannot be parsed.
func (e endpoint) malformedReply(format string, args ...any) error {
	return &transientError{RemoteError: &schema.RemoteError{Code: schema.CodeUnavailable, Message: e.address + " " + fmt.Sprintf(format, args...)}, begun: true}
}

// statusError returns an error that says what an HTTP status means and what to do about it.
func (e endpoint) statusError(status int, header http.Header, body string) error {
	body = strings.TrimSpace(body)
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return configError("%s refused the key (HTTP %d): check %s", e.address, status, e.keySetting)
	case status == http.StatusNotFound:
		return configError("%s has no model %q, or is not such an API (HTTP 404): check %s and %s", e.address, e.model, e.modelSetting, e.urlSetting)
	case status == http.StatusTooManyRequests:
		after := retryAfter(header)
		wait := ""
		if after > 0 {
			wait = " " + after.Round(time.Second).String()
		}
		return &transientError{RemoteError: &schema.RemoteError{Code: schema.CodeOverloaded, Message: fmt.Sprintf(
			"%s takes no more requests now (HTTP 429): wait%s, or raise the limit of the account", e.address, wait)}, after: after}
	case status >= 500:
		return &transientError{RemoteError: &schema.RemoteError{Code: schema.CodeUnavailable, Message: fmt.Sprintf(
			"%s failed (HTTP %d): try again later %s", e.address, status, body)}, after: retryAfter(header)}
	}
	return configError("%s refused the request (HTTP %d): check that %s %q fits it: %s", e.address, status, e.modelSetting, e.model, body)
}

// retryAfter parses the headers in which servers say how long to wait; 0: there is none.
func retryAfter(h http.Header) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms > 0 && ms < 1e9 {
		return time.Duration(ms * float64(time.Millisecond))
	}
	body := h.Get("Retry-After")
	if s, err := strconv.ParseFloat(body, 64); err == nil && s > 0 && s < 1e6 {
		return time.Duration(s * float64(time.Second))
	}
	if at, err := http.ParseTime(body); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}

const (
	// retries is how often a call is repeated. firstPause is the time before the first retry, which
	// doubles for each further one. A wait that the server asks for takes precedence.
	retries    = 2
	firstPause = 500 * time.Millisecond
	maxPause   = 8 * time.Second
	// maxRetryAfter is the longest wait that a server may ask for. If it asks for more, the call
	// fails at once, so that another provider can answer.
	maxRetryAfter = 15 * time.Second
)

// retryTransient returns a policy that retries transient errors; first is the pause before the
// first retry.
func retryTransient[T any](first time.Duration) failsafe.Executor[T] {
	if first <= 0 {
		first = firstPause
	}
	policy := retrypolicy.NewBuilder[T]().
		HandleIf(func(_ T, err error) bool {
			var p *transientError
			return errors.As(err, &p) && p.after <= maxRetryAfter
		}).
		WithBackoff(first, max(maxPause, 2*first)).
		WithJitterFactor(0.2).
		WithDelayFunc(func(exec failsafe.ExecutionAttempt[T]) time.Duration {
			var p *transientError
			if errors.As(exec.LastError(), &p) && p.after > 0 {
				return p.after
			}
			return -1 // the delay of the backoff
		}).
		WithMaxRetries(retries).
		ReturnLastFailure().
		Build()
	return failsafe.With[T](policy)
}
