package schema

import (
	"errors"
	"fmt"
)

// Errors that all layers use. Adapters translate driver errors into these; callers use errors.Is.
var (
	// ErrNotFound: it does not exist, or this tenant may not see it.
	ErrNotFound = errors.New("not found")
	// ErrConflict: it exists already, or has changed meanwhile.
	ErrConflict = errors.New("conflict")
	// ErrInProgress: an equal request is being processed; try again after a pause. It is an
	// ErrConflict.
	ErrInProgress = fmt.Errorf("in progress: %w", ErrConflict)
	// ErrInvalid: the request can never succeed without a change. FieldError wraps it.
	ErrInvalid = errors.New("invalid")
	// ErrUnauthorized: no valid API key.
	ErrUnauthorized = errors.New("unauthorized")
	// ErrForbidden: the key's scopes do not allow this.
	ErrForbidden = errors.New("forbidden")
	// ErrOverloaded: a bounded queue is full; try again after a pause.
	ErrOverloaded = errors.New("overloaded")
	// ErrTenantOverloaded: one tenant has as many requests running and waiting as it may, while
	// others are served; try again after a pause. It is an ErrOverloaded.
	ErrTenantOverloaded = fmt.Errorf("the tenant has too many requests: %w", ErrOverloaded)
	// ErrUnavailable: a part of the system does not respond now.
	ErrUnavailable = errors.New("unavailable")
	// ErrStorageFull: a disk has no space for the data. It is an ErrUnavailable: stored data can
	// still be read, and space may become free.
	ErrStorageFull = fmt.Errorf("no room to store it: %w", ErrUnavailable)
	// ErrQuota: the tenant's quota would be exceeded.
	ErrQuota = errors.New("quota exceeded")
	// ErrProvider: a language model, or its server, failed in a way that a repeated request would
	// not change.
	ErrProvider = errors.New("the language model failed")
	// ErrTooLarge: an upload is over its size limit.
	ErrTooLarge = errors.New("too large")
	// ErrLostLease: another attempt owns the version now. This attempt must not write its results.
	ErrLostLease = errors.New("lease lost")
)

// FieldError names the input field that is wrong.
type FieldError struct {
	Field   string
	Problem string
}

func (e *FieldError) Error() string { return fmt.Sprintf("%s: %s", e.Field, e.Problem) }

// Unwrap makes errors.Is(err, ErrInvalid) true.
func (e *FieldError) Unwrap() error { return ErrInvalid }

// Invalid returns a FieldError for field.
func Invalid(field, format string, args ...any) error {
	return &FieldError{Field: field, Problem: fmt.Sprintf(format, args...)}
}

// Code is the code of an error in messages: a stable word that the receiver can act on.
type Code string

// Codes, one per sentinel error, and "internal" for everything else.
const (
	CodeNotFound    Code = "not_found"
	CodeConflict    Code = "conflict"
	CodeInvalid     Code = "invalid"
	CodeForbidden   Code = "forbidden"
	CodeOverloaded  Code = "overloaded"
	CodeUnavailable Code = "unavailable"
	CodeQuota       Code = "quota"
	CodeTooLarge    Code = "too_large"
	CodeDeadline    Code = "deadline"
	CodeInternal    Code = "internal"
)

var codes = []struct {
	err  error
	code Code
}{
	{ErrNotFound, CodeNotFound}, {ErrConflict, CodeConflict}, {ErrInvalid, CodeInvalid}, {ErrForbidden, CodeForbidden},
	{ErrOverloaded, CodeOverloaded}, {ErrUnavailable, CodeUnavailable}, {ErrQuota, CodeQuota},
	{ErrTooLarge, CodeTooLarge},
}

// CodeOf returns the code of err.
func CodeOf(err error) Code {
	for _, c := range codes {
		if errors.Is(err, c.err) {
			return c.code
		}
	}
	return CodeInternal
}

// RemoteError is an error that another process returned. errors.Is matches the sentinel of its
// code.
type RemoteError struct {
	Code    Code   `json:"code"`
	Field   string `json:"field,omitempty"`
	Message string `json:"message"`
	// OfTenant says that a CodeOverloaded is an ErrTenantOverloaded. It has no code of its own,
	// because older programs know only the old codes.
	OfTenant bool `json:"of_tenant,omitempty"`
	// OfProvider says that a CodeInternal is an ErrProvider, whose message may be shown to the
	// caller. It has no code of its own for the same reason.
	OfProvider bool `json:"of_provider,omitempty"`
}

func (e *RemoteError) Error() string { return e.Message }

// Is reports whether target is the sentinel of e's code, ErrTenantOverloaded, or
// ErrProvider.
func (e *RemoteError) Is(target error) bool {
	if target == ErrTenantOverloaded { //nolint:errorlint // a sentinel's name
		return e.Code == CodeOverloaded && e.OfTenant
	}
	if target == ErrProvider { //nolint:errorlint // a sentinel's name
		return e.Code == CodeInternal && e.OfProvider
	}
	for _, c := range codes {
		if c.code == e.Code {
			return target == c.err
		}
	}
	return false
}

// ToRemote converts err so that it can be sent.
func ToRemote(err error) *RemoteError {
	if err == nil {
		return nil
	}
	out := &RemoteError{Code: CodeOf(err), Message: err.Error(), OfTenant: errors.Is(err, ErrTenantOverloaded), OfProvider: errors.Is(err, ErrProvider)}
	var field *FieldError
	if errors.As(err, &field) {
		out.Field = field.Field
	}
	var remote *RemoteError
	if errors.As(err, &remote) {
		out.Code, out.Field, out.OfTenant, out.OfProvider = remote.Code, remote.Field, remote.OfTenant, remote.OfProvider
	}
	return out
}
