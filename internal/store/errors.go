package store

// This file translates the driver's errors to the sentinels of package schema.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-rag/sluice/schema"
)

var errNotMigrated = fmt.Errorf("the database has no Sluice schema; run sluice migrate: %w", schema.ErrUnavailable)

// dbError adds a meaning to a driver's error, and keeps the error and its text.
type dbError struct {
	meaning error
	cause   error
}

func (e *dbError) Error() string   { return e.cause.Error() }
func (e *dbError) Unwrap() []error { return []error{e.meaning, e.cause} }

// sentinels are the errors that Translate leaves as they are.
var sentinels = []error{
	schema.ErrNotFound, schema.ErrConflict, schema.ErrInvalid, schema.ErrUnauthorized, schema.ErrForbidden,
	schema.ErrOverloaded, schema.ErrUnavailable, schema.ErrQuota, schema.ErrTooLarge, schema.ErrLostLease,
	context.Canceled, context.DeadlineExceeded,
}

// Translate makes errors.Is match the sentinel that err means, if any.
func Translate(err error) error {
	if err == nil {
		return nil
	}
	for _, s := range sentinels {
		if errors.Is(err, s) {
			return err
		}
	}
	if meaning := meaningOf(err); meaning != nil {
		return &dbError{meaning: meaning, cause: err}
	}
	return err
}

// notBegunError is an error from before a transaction's function ran. Whatever the error is,
// nothing can be read or written now.
type notBegunError struct{ error }

func (e *notBegunError) Unwrap() error { return e.error }

// asNotBegun returns err as a notBegunError of ctx's transaction.
func asNotBegun(ctx context.Context, r role, err error) error {
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		err = &dbError{meaning: schema.ErrUnavailable, cause: err} // not the caller's time is up but the limit for connecting
	}
	return &notBegunError{fmt.Errorf("begin as %s: %w", r, err)}
}

// rolledBackError is an error of a transaction whose connection broke before it was committed.
type rolledBackError struct{ error }

func (e *rolledBackError) Unwrap() error { return e.error }

// unknown is the error of a commit whose outcome is not known.
type unknown struct{ error }

func (e *unknown) Unwrap() error { return e.error }

// IsUnknown reports whether err is of a commit whose outcome is not known.
func IsUnknown(err error) bool {
	var u *unknown
	return errors.As(err, &u)
}

func meaningOf(err error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return schema.ErrNotFound
	}
	if errors.Is(err, ErrRepeat) {
		return schema.ErrConflict
	}
	if isConnectionError(err) {
		return schema.ErrUnavailable
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return meaningOfCode(pg)
	}
	return nil
}

// isConnectionError reports whether err means that there is no connection: none could be made or
// used, or it broke.
func isConnectionError(err error) bool {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false // the caller's time is up; the driver's error for that looks like a network error
	}
	var early *notBegunError
	var broke *rolledBackError
	var connect *pgconn.ConnectError
	if errors.As(err, &early) || errors.As(err, &broke) || errors.As(err, &connect) || pgconn.SafeToRetry(err) {
		return true
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return strings.HasPrefix(pg.Code, "08") || slices.Contains(sessionEndCodes, pg.Code)
	}
	var network net.Error
	for _, ended := range []error{io.ErrUnexpectedEOF, io.EOF, io.ErrClosedPipe, net.ErrClosed, pgconn.ErrConnClosed} {
		if errors.Is(err, ended) {
			return true
		}
	}
	return errors.As(err, &network)
}

// sessionEndCodes are the codes with which a server ends or refuses a session: it is shutting down,
// crashed or is starting, its database is gone, all its connections are taken, or the session was
// idle for too long.
var sessionEndCodes = []string{"57P01", "57P02", "57P03", "57P04", "57P05", "53300", "25P03", "25P04"}

// readOnly reports whether the server accepts no writes: it is a standby now, or was set to
// read-only.
func readOnly(err error) bool {
	var pg *pgconn.PgError
	return errors.Is(err, errReadOnly) || errors.As(err, &pg) && pg.Code == codeReadOnly
}

const codeReadOnly = "25006"

var errReadOnly = fmt.Errorf("the database takes no writes now: %w", schema.ErrUnavailable)

// meaningOfCode translates a SQLSTATE, see appendix A of the Postgres manual.
func meaningOfCode(pg *pgconn.PgError) error {
	switch pg.Code {
	case "23505", "23P01": // unique, exclusion
		return schema.ErrConflict
	case "23503": // foreign key: the referenced row does not exist, or is not this tenant's
		return schema.ErrNotFound
	case "23502", "23514": // not null, check
		return &schema.FieldError{Field: fieldOf(pg), Problem: pg.Message}
	case "40001", "40P01", "55P03": // lost against other transactions too often
		return schema.ErrConflict
	case "42501": // row-level security or a missing grant
		return schema.ErrForbidden
	case "42P01", "42703", "42883", "3F000": // a table, column, function or schema is missing
		return schema.ErrUnavailable
	case codeReadOnly, "57014": // read-only, statement timeout
		return schema.ErrUnavailable
	}
	switch {
	case strings.HasPrefix(pg.Code, "22"): // data: text, number or time that the column cannot hold
		return &schema.FieldError{Field: fieldOf(pg), Problem: pg.Message}
	case pg.Code == "53100": // disk full
		return schema.ErrStorageFull
	case strings.HasPrefix(pg.Code, "53"), strings.HasPrefix(pg.Code, "57"), strings.HasPrefix(pg.Code, "58"):
		return schema.ErrUnavailable // resources, shutdown, input/output
	}
	return nil
}

func fieldOf(pg *pgconn.PgError) string {
	for _, name := range []string{pg.ColumnName, pg.ConstraintName} {
		if name != "" {
			return name
		}
	}
	return "value"
}

// IsNoRows reports whether a query returned no row.
func IsNoRows(err error) bool { return errors.Is(err, pgx.ErrNoRows) }

// Named replaces the driver's error for no rows by one that says what was not found.
func Named(err error, what string, key any) error {
	if IsNoRows(err) {
		return fmt.Errorf("no %s %v: %w", what, key, schema.ErrNotFound)
	}
	return err
}

// Wrap adds what was being done to err. It returns nil if err is nil.
func Wrap(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf(format+": %w", append(args, err)...)
}
