package store

// This file turns the driver's errors into the sentinels of package schema.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/sluice-rag/sluice/schema"
)

var errNotMigrated = fmt.Errorf("the database has no Sluice schema; run sluice migrate: %w", schema.ErrUnavailable)

// dbError gives a driver's error its meaning and keeps its text and itself.
type dbError struct {
	meaning error
	cause   error
}

func (e *dbError) Error() string   { return e.cause.Error() }
func (e *dbError) Unwrap() []error { return []error{e.meaning, e.cause} }

// sentinels are what translate leaves as they are.
var sentinels = []error{
	schema.ErrNotFound, schema.ErrConflict, schema.ErrInvalid, schema.ErrUnauthorized, schema.ErrForbidden,
	schema.ErrOverloaded, schema.ErrUnavailable, schema.ErrQuota, schema.ErrTooLarge, schema.ErrLostLease,
	context.Canceled, context.DeadlineExceeded,
}

// translate makes errors.Is match the sentinel that err means, if any.
func translate(err error) error {
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

func meaningOf(err error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return schema.ErrNotFound
	}
	if errors.Is(err, errRepeat) {
		return schema.ErrConflict
	}
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return meaningOfCode(pg)
	}
	var connect *pgconn.ConnectError
	var network net.Error
	if errors.As(err, &connect) || errors.As(err, &network) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) ||
		errors.Is(err, net.ErrClosed) {
		return schema.ErrUnavailable
	}
	return nil
}

// meaningOfCode reads SQLSTATE, see appendix A of the Postgres manual.
func meaningOfCode(pg *pgconn.PgError) error {
	switch pg.Code {
	case "23505", "23P01": // unique, exclusion
		return schema.ErrConflict
	case "23503": // foreign key: what it names is not there, or not this tenant's
		return schema.ErrNotFound
	case "23502", "23514": // not null, check
		return &schema.FieldError{Field: fieldOf(pg), Problem: pg.Message}
	case "40001", "40P01", "55P03": // lost against others too often
		return schema.ErrConflict
	case "42501": // row-level security or a missing grant
		return schema.ErrForbidden
	case "42P01", "42703", "42883", "3F000": // a table, column, function or schema is missing
		return schema.ErrUnavailable
	case "57014": // statement timeout
		return schema.ErrUnavailable
	}
	switch {
	case strings.HasPrefix(pg.Code, "22"): // data: text, number or time that the column cannot hold
		return &schema.FieldError{Field: fieldOf(pg), Problem: pg.Message}
	case strings.HasPrefix(pg.Code, "08"), strings.HasPrefix(pg.Code, "53"), strings.HasPrefix(pg.Code, "57"), strings.HasPrefix(pg.Code, "58"):
		return schema.ErrUnavailable // connection, resources (disk full), shutdown, input/output
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

func isNoRows(err error) bool { return errors.Is(err, pgx.ErrNoRows) }

// named says what was not found in place of the driver's words.
func named(err error, what string, key any) error {
	if isNoRows(err) {
		return fmt.Errorf("no %s %v: %w", what, key, schema.ErrNotFound)
	}
	return err
}
