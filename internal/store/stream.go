package store

// This file sends statements of a transaction one by one, without waiting for
// what came of them: Postgres runs the first while the next ones are encoded or
// have yet to be made. A pgx.Batch is encoded as a whole before any of it is
// sent.

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// Stream is such a series of statements, which return no rows. It must be closed.
type Stream struct {
	conn       *pgx.Conn
	pipeline   *pgconn.Pipeline
	statements map[string]*pgconn.StatementDescription
	pooled     bool

	// Of the statement that is being sent.
	memory  *[]byte
	values  [][]byte
	formats []int16
}

// OpenStream begins a series of statements that are among those named. Until it
// is closed the transaction does nothing else.
func OpenStream(ctx context.Context, tx pgx.Tx, statements ...string) (*Stream, error) {
	s := &Stream{conn: tx.Conn(), pooled: pooled(tx.Conn()), memory: encoded.Get().(*[]byte), statements: make(map[string]*pgconn.StatementDescription, len(statements))}
	for _, sql := range statements {
		known, err := describe(ctx, s.conn, sql)
		if err != nil {
			return nil, err
		}
		s.statements[sql] = known
	}
	s.pipeline = s.conn.PgConn().StartPipeline(ctx)
	return s, nil
}

// Send sends what is in b. Errors of Postgres come when the stream is closed:
// after one, it runs nothing more.
func (s *Stream) Send(b *pgx.Batch) error {
	for _, q := range b.QueuedQueries {
		known := s.statements[q.SQL]
		if known == nil {
			return fmt.Errorf("a statement that was not prepared: %s", q.SQL)
		}
		if err := s.encode(known, q.Arguments); err != nil {
			return fmt.Errorf("encode the arguments of %s: %w", q.SQL, err)
		}
		if s.pooled {
			s.pipeline.SendQueryParams(q.SQL, s.values, known.ParamOIDs, s.formats, nil)
		} else {
			s.pipeline.SendQueryStatement(known, s.values, s.formats, nil)
		}
		if err := s.pipeline.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// encode writes arguments as Postgres reads them. Arrays of many elements are
// written here: pgx finds out for each element how to write it, and enlarges the
// room for them again and again.
func (s *Stream) encode(known *pgconn.StatementDescription, args []any) error {
	if len(args) != len(known.ParamOIDs) {
		return fmt.Errorf("%d arguments for %d parameters", len(args), len(known.ParamOIDs))
	}
	types := s.conn.TypeMap()
	data, ends := (*s.memory)[:0], make([]int, len(args))
	s.formats = s.formats[:0]
	for i, arg := range args {
		after, format, err := appendArray(data, known.ParamOIDs[i], arg), int16(pgx.BinaryFormatCode), error(nil)
		if after == nil {
			format = types.FormatCodeForOID(known.ParamOIDs[i])
			if _, text := arg.(string); text {
				format = pgx.TextFormatCode // whatever the type is
			}
			after, err = types.Encode(known.ParamOIDs[i], format, arg, data)
		}
		switch {
		case err != nil:
			return fmt.Errorf("argument %d: %w", i+1, err)
		case after == nil: // null
			ends[i] = -1
		default:
			data, ends[i] = after, len(after)
		}
		s.formats = append(s.formats, format)
	}
	*s.memory = data
	s.values = s.values[:0]
	at := 0
	for _, end := range ends {
		if end < 0 {
			s.values = append(s.values, nil)
			continue
		}
		s.values = append(s.values, data[at:end:end])
		at = end
	}
	return nil
}

// encoded is the memory of streams that are closed.
var encoded = sync.Pool{New: func() any {
	memory := make([]byte, 0, 1<<20)
	return &memory
}}

// Close waits for the statements and returns the first error of them.
func (s *Stream) Close() error {
	encoded.Put(s.memory)
	if err := s.pipeline.Sync(); err != nil {
		return err
	}
	var first error
	for {
		results, err := s.pipeline.GetResults()
		if rows, ok := results.(*pgconn.ResultReader); ok {
			_, err = rows.Close()
		}
		if first == nil {
			first = err
		}
		if _, ok := results.(*pgconn.PipelineSync); ok || err != nil {
			break
		}
	}
	if err := s.pipeline.Close(); first == nil {
		first = err
	}
	return first
}

// Arrays are as Postgres reads them in binary (array_recv): dimensions, no nulls, the
// elements' type, length and lower bound; then each element behind its length.

// appendArray writes an array of the type that Postgres expects. It returns nil
// when list is none that is known here.
func appendArray(buf []byte, oid uint32, list any) []byte {
	switch list := list.(type) {
	case []uuid.UUID:
		if oid == pgtype.UUIDArrayOID {
			return appendUUIDs(buf, list)
		}
	case []string:
		if oid == pgtype.TextArrayOID {
			return appendTexts(buf, list)
		}
	case []int:
		if oid == pgtype.Int4ArrayOID && !slices.ContainsFunc(list, func(x int) bool { return x < math.MinInt32 || x > math.MaxInt32 }) {
			return appendInts(buf, list)
		}
	}
	return nil
}

// appendArrayHead begins an array of n elements, which take size bytes with their
// lengths.
func appendArrayHead(buf []byte, element uint32, n, size int) []byte {
	head := []uint32{1, 0, element, uint32(n), 1}
	if n == 0 {
		head = []uint32{0, 0, element}
	}
	buf = slices.Grow(buf, 4*len(head)+size)
	for _, x := range head {
		buf = binary.BigEndian.AppendUint32(buf, x)
	}
	return buf
}

func appendUUIDs(buf []byte, list []uuid.UUID) []byte {
	buf = appendArrayHead(buf, pgtype.UUIDOID, len(list), 20*len(list))
	for i := range list {
		buf = append(binary.BigEndian.AppendUint32(buf, 16), list[i][:]...)
	}
	return buf
}

func appendTexts(buf []byte, list []string) []byte {
	size := 0
	for _, text := range list {
		size += 4 + len(text)
	}
	buf = appendArrayHead(buf, pgtype.TextOID, len(list), size)
	for _, text := range list {
		buf = append(binary.BigEndian.AppendUint32(buf, uint32(len(text))), text...)
	}
	return buf
}

// appendInts writes numbers that fit into int4.
func appendInts(buf []byte, list []int) []byte {
	buf = appendArrayHead(buf, pgtype.Int4OID, len(list), 8*len(list))
	for _, x := range list {
		buf = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(buf, 4), uint32(x))
	}
	return buf
}
