package store

// This file sends statements of a transaction one by one, without waiting for their results:
// Postgres runs the first while later ones are encoded or made. A pgx.Batch is encoded as a whole
// before any of it is sent.

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

// Stream is a series of statements that return no rows. It must be closed.
type Stream struct {
	conn       *pgx.Conn
	pipeline   *pgconn.Pipeline
	statements map[string]*pgconn.StatementDescription
	pooled     bool

	// State of the statement that is being sent.
	memory  *[]byte
	values  [][]byte
	formats []int16
}

// OpenStream begins a series of the given statements. Until it is closed the transaction must not
// be used otherwise.
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

// Send sends the statements in b. Close returns errors of Postgres; after one, Postgres runs no
// further statement.
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

// encode encodes arguments in the formats that Postgres reads. Large arrays are encoded here,
// because pgx looks up the encoding for each element, and enlarges its buffer again and again.
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

// encoded holds the buffers of closed streams.
var encoded = sync.Pool{New: func() any {
	memory := make([]byte, 0, 1<<20)
	return &memory
}}

// Close waits for the statements and returns the first of their errors.
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

// Arrays are in the binary format of Postgres (array_recv): the number of dimensions, the flag for
// nulls, the elements' type, the length and the lower bound; then each element, after its length.

// appendArray encodes an array of the type that Postgres expects. It returns nil for a list of an
// unsupported type.
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

// appendArrayHead begins an array of n elements, which take size bytes including their lengths.
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

// appendInts encodes numbers that fit into int4.
func appendInts(buf []byte, list []int) []byte {
	buf = appendArrayHead(buf, pgtype.Int4OID, len(list), 8*len(list))
	for _, x := range list {
		buf = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(buf, 4), uint32(x))
	}
	return buf
}
