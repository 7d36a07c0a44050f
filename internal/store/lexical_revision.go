package store

// This file checks, for every search, whether a collection's index is still as it was when it was
// read. The check runs while the search does.

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
)

// revisionSQL enters the tenant and reads under row-level security, in one statement that is its
// own transaction. Idle connections have the role sluice_app; behind a pooler roleSQL comes first,
// in the same packet and transaction.
const (
	revisionSQL = `SELECT sluice_lexical_revision($1, $2)`
	roleSQL     = `SELECT set_config('role', '` + string(roleApp) + `', true)`
)

// binaryFormat is the format of arguments and results.
var binaryFormat = []int16{pgx.BinaryFormatCode}

// AskRevision starts reading the revision of a collection's lexical index; wait returns the result.
// The connection stays in use until wait is called. When a quarter of the connections is in use
// like this, AskRevision itself waits for the result, so that searches do not take all connections.
func (s *Store) AskRevision(ctx context.Context, tenant, collection uuid.UUID) (wait func() (int64, error)) {
	failed := func(err error) func() (int64, error) {
		return func() (int64, error) {
			revision := int64(0)
			if isConnectionError(err) { // the next connection may be alive
				s.closeConnections(err)
				revision, err = s.revisionAgain(ctx, tenant, collection)
			}
			if err != nil {
				err = fmt.Errorf("ask for the revision of collection %s: %w", collection, Translate(err))
			}
			return revision, err
		}
	}
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return failed(err)
	}
	p, err := sendRevision(ctx, conn, tenant, collection)
	if err != nil {
		conn.Release() // the pool discards broken connections
		return failed(err)
	}
	answer := func() (int64, error) {
		revision, err := receiveRevision(p, pooled(conn.Conn()))
		err = whole(conn.Conn(), err)
		conn.Release()
		if err != nil {
			return failed(err)()
		}
		return revision, nil
	}
	if s.searching.Add(1) > s.maxSearching {
		s.searching.Add(-1)
		revision, err := answer()
		return func() (int64, error) { return revision, err }
	}
	return func() (int64, error) {
		defer s.searching.Add(-1)
		return answer()
	}
}

// revisionAgain reads the revision on another connection, and waits for the result.
func (s *Store) revisionAgain(ctx context.Context, tenant, collection uuid.UUID) (revision int64, err error) {
	err = s.repeat(ctx, func() error {
		conn, err := s.pool.Acquire(ctx)
		if err != nil {
			return asNotBegun(ctx, roleApp, err)
		}
		defer conn.Release()
		p, err := sendRevision(ctx, conn, tenant, collection)
		if err == nil {
			revision, err = receiveRevision(p, pooled(conn.Conn()))
		}
		return whole(conn.Conn(), err)
	})
	return revision, err
}

// sendRevision sends the statements without waiting for results.
func sendRevision(ctx context.Context, conn *pgxpool.Conn, tenant, collection uuid.UUID) (*pgconn.Pipeline, error) {
	values := [][]byte{tenant[:], collection[:]}
	if pooled(conn.Conn()) {
		p := conn.Conn().PgConn().StartPipeline(ctx)
		p.SendQueryParams(roleSQL, nil, nil, nil, nil)
		p.SendQueryParams(revisionSQL, values, []uint32{pgtype.UUIDOID, pgtype.UUIDOID}, binaryFormat, binaryFormat)
		return p, p.Sync()
	}
	statement, err := revisionStatement(ctx, conn)
	if err != nil {
		return nil, err
	}
	p := conn.Conn().PgConn().StartPipeline(ctx)
	p.SendQueryStatement(statement, values, binaryFormat, binaryFormat)
	return p, p.Sync()
}

// receiveRevision reads the result, after that of roleSQL when there is a pooler.
func receiveRevision(p *pgconn.Pipeline, pooled bool) (revision int64, err error) {
	if pooled {
		err = readRole(p)
	}
	if err == nil {
		revision, err = readRevision(p)
	}
	if closed := p.Close(); err == nil {
		err = closed
	}
	return revision, err
}

func readRole(p *pgconn.Pipeline) error {
	results, err := p.GetResults()
	if err != nil {
		return err
	}
	rows, ok := results.(*pgconn.ResultReader)
	if !ok {
		return errors.New("no rows")
	}
	_, err = rows.Close()
	return err
}

func readRevision(p *pgconn.Pipeline) (int64, error) {
	results, err := p.GetResults()
	if err != nil {
		return 0, err
	}
	rows, ok := results.(*pgconn.ResultReader)
	if !ok {
		return 0, errors.New("no rows")
	}
	if !rows.NextRow() {
		_, err := rows.Close()
		return 0, cmp.Or(err, errors.New("no row"))
	}
	values := rows.Values()
	if len(values) != 1 || len(values[0]) != 8 {
		return 0, errors.New("not a number of 8 bytes")
	}
	revision := int64(binary.BigEndian.Uint64(values[0]))
	_, err = rows.Close()
	return revision, err
}

// revisionStatement returns the connection's prepared statement, and prepares it on first use.
func revisionStatement(ctx context.Context, conn *pgxpool.Conn) (*pgconn.StatementDescription, error) {
	known := conn.Conn().PgConn().CustomData()
	if statement, ok := known[revisionSQL].(*pgconn.StatementDescription); ok {
		return statement, nil
	}
	statement, err := conn.Conn().Prepare(ctx, "sluice_lexical_revision", revisionSQL)
	if err != nil {
		return nil, err
	}
	known[revisionSQL] = statement
	return statement, nil
}
