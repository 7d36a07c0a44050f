package llm

// What is said of a server that does not answer as it should, and which of its
// errors are worth another try.

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

// endpoint is a model at a server, and the settings that name them.
type endpoint struct {
	address                              string // without credentials
	model                                string
	timeout                              time.Duration // of a completion, further tries included
	keySetting, urlSetting, modelSetting string
}

// newEndpoint checks an address and a model.
func newEndpoint(e endpoint, example string) (endpoint, error) {
	u, err := url.Parse(e.address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return endpoint{}, schema.Invalid(e.urlSetting, "needs an http or https address, for example %s", example)
	}
	e.address = redacted(u)
	if e.model == "" {
		return endpoint{}, schema.Invalid(e.modelSetting, "is missing: name the model that %s shall use", e.address)
	}
	if e.timeout <= 0 {
		e.timeout = defaultTimeout
	}
	return e, nil
}

// redacted is an address without its user, which may be a key, and its query.
func redacted(u *url.URL) string {
	shown := *u
	shown.User, shown.RawQuery = nil, ""
	return shown.String()
}

// passing is an error that may be gone in a while.
type passing struct {
	*schema.RemoteError
	after time.Duration // that the server asked to wait; 0: it said nothing
	begun bool          // the reply had begun
}

func (e *passing) Unwrap() error { return e.RemoteError }

// ended says why a call ended with its context: its time was over, or nobody wants
// its reply.
func (e endpoint) ended(ctx context.Context) error {
	if !cancelled(ctx) {
		return e.tooSlow()
	}
	return &schema.RemoteError{Code: schema.CodeUnavailable, Message: fmt.Sprintf(
		"the call to model %s at %s was cancelled: %v", e.model, e.address, context.Cause(ctx))}
}

// cancelled reports whether a context ended before its time.
func cancelled(ctx context.Context) bool { return errors.Is(ctx.Err(), context.Canceled) }

func (e endpoint) tooSlow() error {
	return &schema.RemoteError{Code: schema.CodeDeadline, Message: fmt.Sprintf(
		"model %s at %s took over %s: raise SLUICE_LLM_TIMEOUT or use a faster model", e.model, e.address, e.timeout)}
}

func (e endpoint) unreachable(why error) error {
	return &passing{RemoteError: &schema.RemoteError{Code: schema.CodeUnavailable, Message: fmt.Sprintf(
		"no answer from %s: check that it runs and %s (%v)", e.address, e.urlSetting, why)}}
}

// unusable is what a person must mend: another try would end in the same way.
func unusable(format string, args ...any) error {
	return &schema.RemoteError{Code: schema.CodeInternal, OfProvider: true, Message: fmt.Sprintf(format, args...)}
}

// unreadable is the error of a model whose reply, whole as it came and also when it was asked
// once more, is not in the form that was asked for.
type unreadable struct{ error }

func (e *unreadable) Unwrap() error { return e.error }

// broken is a reply that ended early or makes no sense.
func (e endpoint) broken(format string, args ...any) error {
	return &passing{RemoteError: &schema.RemoteError{Code: schema.CodeUnavailable, Message: e.address + " " + fmt.Sprintf(format, args...)}, begun: true}
}

// refused says what an HTTP status means and what to do about it.
func (e endpoint) refused(status int, header http.Header, said string) error {
	said = strings.TrimSpace(said)
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return unusable("%s refused the key (HTTP %d): check %s", e.address, status, e.keySetting)
	case status == http.StatusNotFound:
		return unusable("%s has no model %q, or is no such API (HTTP 404): check %s and %s", e.address, e.model, e.modelSetting, e.urlSetting)
	case status == http.StatusTooManyRequests:
		after := retryAfter(header)
		wait := ""
		if after > 0 {
			wait = " " + after.Round(time.Second).String()
		}
		return &passing{RemoteError: &schema.RemoteError{Code: schema.CodeOverloaded, Message: fmt.Sprintf(
			"%s takes no more requests now (HTTP 429): wait%s, or raise the limit of the account", e.address, wait)}, after: after}
	case status >= 500:
		return &passing{RemoteError: &schema.RemoteError{Code: schema.CodeUnavailable, Message: fmt.Sprintf(
			"%s failed (HTTP %d): try again later %s", e.address, status, said)}, after: retryAfter(header)}
	}
	return unusable("%s refused the request (HTTP %d): check that %s %q fits it: %s", e.address, status, e.modelSetting, e.model, said)
}

// retryAfter reads the headers by which servers say how long to wait; 0: they
// do not.
func retryAfter(h http.Header) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms > 0 && ms < 1e9 {
		return time.Duration(ms * float64(time.Millisecond))
	}
	said := h.Get("Retry-After")
	if s, err := strconv.ParseFloat(said, 64); err == nil && s > 0 && s < 1e6 {
		return time.Duration(s * float64(time.Second))
	}
	if at, err := http.ParseTime(said); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}

const (
	// retries is how often a call is made again, firstPause the time before the
	// first one, which doubles; a server's word on it goes before.
	retries    = 2
	firstPause = 500 * time.Millisecond
	lastPause  = 8 * time.Second
	// longestWait is the longest wait that a server may ask for: with more, the
	// call fails at once, so that another provider can answer.
	longestWait = 15 * time.Second
)

// retryPassing tries again what may pass; first is the pause before that.
func retryPassing[T any](first time.Duration) failsafe.Executor[T] {
	if first <= 0 {
		first = firstPause
	}
	policy := retrypolicy.NewBuilder[T]().
		HandleIf(func(_ T, err error) bool {
			var p *passing
			return errors.As(err, &p) && p.after <= longestWait
		}).
		WithBackoff(first, max(lastPause, 2*first)).
		WithJitterFactor(0.2).
		WithDelayFunc(func(exec failsafe.ExecutionAttempt[T]) time.Duration {
			var p *passing
			if errors.As(exec.LastError(), &p) && p.after > 0 {
				return p.after
			}
			return -1 // as the backoff has it
		}).
		WithMaxRetries(retries).
		ReturnLastFailure().
		Build()
	return failsafe.With[T](policy)
}
