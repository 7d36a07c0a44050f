package store

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/sluice-rag/sluice/internal/local/localtest"
	"github.com/sluice-rag/sluice/schema"
)

// TestArraysAreWrittenAsTheDriverWritesThem: they are equal byte by byte, and unsupported lists are
// left to the driver.
func TestArraysAreWrittenAsTheDriverWritesThem(t *testing.T) {
	ids := []uuid.UUID{schema.NewID(), uuid.Nil, schema.NewID()}
	types := pgtype.NewMap()
	registerUUID(types)
	for what, c := range map[string]struct {
		oid  uint32
		list any
	}{
		"uuids":         {pgtype.UUIDArrayOID, ids},
		"texts":         {pgtype.TextArrayOID, []string{"", "a", `{"ü"}`, strings.Repeat("long ", 10_000)}},
		"numbers":       {pgtype.Int4ArrayOID, []int{0, -1, 1 << 30, -1 << 31}},
		"long numbers":  {pgtype.Int8ArrayOID, []int{1}},
		"too long ones": {pgtype.Int4ArrayOID, []int{1 << 31}},
		"bytes":         {pgtype.ByteaArrayOID, [][]byte{{1}}},
	} {
		got := appendArray([]byte("before"), c.oid, c.list)
		if what == "long numbers" || what == "too long ones" || what == "bytes" {
			if got != nil {
				t.Errorf("%s: written", what)
			}
			continue
		}
		want, err := types.Encode(c.oid, pgx.BinaryFormatCode, c.list, []byte("before"))
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s: %x, the driver writes %x", what, got, want)
		}
	}
	// An empty array has no dimension, as Postgres sends it.
	for oid, list := range map[uint32]any{pgtype.UUIDArrayOID: []uuid.UUID{}, pgtype.TextArrayOID: []string{}, pgtype.Int4ArrayOID: []int{}} {
		if got := appendArray(nil, oid, list); !bytes.Equal(got[:8], make([]byte, 8)) || len(got) != 12 {
			t.Errorf("an empty array of type %d: %x", oid, got)
		}
	}
}

const (
	keepSQL   = `SELECT set_config('sluice.test_' || $1::text, coalesce($2::text, 'null') || cardinality($3::text[]), true)`
	divideSQL = `SELECT 1 / $1::int`
)

func TestStreamedStatementsRunInOrder(t *testing.T) {
	s, tenant := streamStore(t)
	var got string
	err := s.AsTenant(t.Context(), tenant, func(ctx context.Context, tx pgx.Tx) error {
		sending, err := OpenStream(ctx, tx, keepSQL)
		if err != nil {
			return err
		}
		b := &pgx.Batch{}
		b.Queue(keepSQL, "a", "first", []string{})
		b.Queue(keepSQL, "a", "", []string{"x", "y"})
		b.Queue(keepSQL, "b", nil, []string{strings.Repeat("x", 3<<20)})
		b.Queue(keepSQL, "c", "last", []string{""})
		if err := errors.Join(sending.Send(b), sending.Close()); err != nil {
			return err
		}
		return tx.QueryRow(ctx, `SELECT concat_ws(' ', current_setting('sluice.test_a'), current_setting('sluice.test_b'), current_setting('sluice.test_c'))`).Scan(&got)
	})
	if err != nil || got != "2 null1 last1" {
		t.Errorf("kept %q: %v", got, err)
	}
}

// TestStreamTellsOfTheFirstError: however much is sent after a statement that Postgres refuses; the
// connection stays usable.
func TestStreamTellsOfTheFirstError(t *testing.T) {
	s, tenant := streamStore(t)
	for range 2 {
		err := s.AsTenant(t.Context(), tenant, func(ctx context.Context, tx pgx.Tx) error {
			sending, err := OpenStream(ctx, tx, divideSQL, keepSQL)
			if err != nil {
				return err
			}
			b := &pgx.Batch{}
			b.Queue(divideSQL, 1)
			b.Queue(divideSQL, 0)
			for range 4 {
				b.Queue(keepSQL, "a", "never", []string{strings.Repeat("x", 3<<20)})
			}
			return errors.Join(sending.Send(b), sending.Close())
		})
		var refused *pgconn.PgError
		if !errors.As(err, &refused) || refused.Code != "22012" {
			t.Fatalf("%v, not a division by zero", err)
		}
	}
	err := s.AsTenant(t.Context(), tenant, func(ctx context.Context, tx pgx.Tx) error {
		sending, err := OpenStream(ctx, tx, divideSQL)
		if err != nil {
			return err
		}
		b := &pgx.Batch{}
		b.Queue(divideSQL, struct{}{})
		problem := sending.Send(b)
		if problem == nil || !strings.Contains(problem.Error(), "argument 1") {
			t.Errorf("sent what cannot be encoded: %v", problem)
		}
		b = &pgx.Batch{}
		b.Queue(keepSQL, "a", "b", nil)
		if problem := sending.Send(b); problem == nil || !strings.Contains(problem.Error(), "not prepared") {
			t.Errorf("sent what was not prepared: %v", problem)
		}
		return sending.Close()
	})
	if err != nil {
		t.Errorf("after errors of its own: %v", err)
	}
}

func streamStore(t *testing.T) (*Store, uuid.UUID) {
	t.Helper()
	s, err := Open(t.Context(), localtest.Database(t), Options{MaxConns: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s, schema.NewID()
}
